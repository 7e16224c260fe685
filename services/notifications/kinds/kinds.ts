export type Category = "deletion" | "billing" | "member" | "deploy" | "social";
export type Channel = "in_app" | "email" | "both" | "off";
export type Frequency = "immediate" | "daily" | "weekly";

/**
 * Who receives a kind: the user it is about, the members of its account who have at least this role, or its owners
 * except the one who acted and the one it is about.
 */
export type Audience = "user" | "reader" | "editor" | "owner" | "other_owners";

export type Kind = {
  label: string;
  category: Category;
  channel: Channel;
  frequency: Frequency;
  /** Mailed immediately, whatever the user chose. */
  forced: boolean;
  /** Forced and frequent: the first is mailed immediately, all that follow within the hour share one mail. */
  bundled?: true;
  audience: Audience;
};

export type KindKey = keyof typeof catalogue;

/** Every kind of notification, in the order in which clients see them (docs/notifications.md#kinds). */
export const catalogue = {
  "deploy.ready": deploy("Deployment is live", "in_app"),
  "deploy.failed": deploy("Deployment failed", "both"),
  "deploy.rolled_back": deploy("Rollback started", "in_app"),
  "deploy.superseded": deploy("Deployment superseded", "off"),
  "deploy.unhealthy": deploy("Service became unhealthy", "both"),
  "deploy.recovered": deploy("Service recovered", "in_app"),
  "deploy.config_dangling": deploy("A variable no longer resolves", "in_app", "daily"),
  "domain.active": deploy("Domain is served", "in_app"),
  "domain.failed": deploy("Domain failed", "both"),
  "job.failed": deploy("Scheduled runs fail", "both"),
  "job.recovered": deploy("Scheduled runs succeed again", "in_app"),
  "backup.failed": deploy("Backup failed", "both"),
  "addon.failover": deploy("A standby took over", "in_app"),
  "storage.filling": deploy("Volume of an addon is nearly full", "both"),
  "billing.subscription_started": billing("Subscription started"),
  "billing.subscription_canceling": billing("Subscription will end"),
  "billing.subscription_ended": billing("Subscription ended, back on Free"),
  "billing.subscription_resumed": billing("Cancellation undone"),
  "billing.plan_changed": billing("Plan changed"),
  "billing.plan_change_scheduled": billing("Plan will change"),
  "billing.plan_change_undone": billing("Change of plan undone"),
  "billing.grace_period": billing("Services run on until a date"),
  "billing.services_stopped": billing("Services were stopped"),
  "billing.services_resumed": billing("Services run again"),
  "billing.payment_failed": billing("Payment failed"),
  "billing.payment_action_required": billing("Payment needs your confirmation"),
  "billing.invoice_paid": billing("Invoice paid"),
  "billing.card_expiring": billing("Card expires soon"),
  "billing.refund_issued": billing("Refund issued"),
  "billing.refund_under_review": billing("Refund under review"),
  "billing.refund_failed": billing("Refund failed"),
  "billing.refund_denied": billing("Refund denied"),
  "billing.payment_disputed": billing("Payment disputed at the bank"),
  "billing.dispute_closed": billing("Bank decided about a dispute"),
  "billing.usage_threshold": billing("Compute spend reached 75, 90 or 100 %"),
  "billing.credit_exhausted": billing("Plan credit used up"),
  "billing.spend_limit": billing("Compute spend reached 50, 80 or 100 % of your limit"),
  "billing.coupon_not_applied": billing("Saved code could not be used"),
  "billing.price_change": billing("Your price will change"),
  "deletion.scheduled": deletion("Deletion scheduled"),
  "deletion.canceled": deletion("Deletion canceled"),
  "deletion.imminent": deletion("Deletion in 24 hours"),
  "deletion.completed": deletion("Data was deleted"),
  "member.invited": { ...security("You were invited"), forced: false },
  "member.joined": member("Member joined"),
  "member.left": member("Member left"),
  "member.role_changed": security("Your role changed"),
  "member.removed": security("You were removed"),
  "security.sign_in_new_device": security("New sign-in"),
  "security.password_changed": security("Password changed"),
  "security.token_created": security("API token created"),
  "security.token_revoked": security("API token revoked"),
  "security.oauth_granted": security("App access granted"),
  "security.oauth_revoked": security("App access revoked"),
  "security.variable_revealed": {
    ...security("Sensitive variable revealed"),
    audience: "other_owners",
    bundled: true,
  },
  "webhook.disabled": { ...deploy("Webhook disabled", "both"), audience: "owner" },
  "node.disk_filling": operators("The disk of a node is filling up"),
  "node.memory_low": operators("The memory of a node is running short"),
  "node.recovered": operators("A node has room again"),
  "social.mention": social("Mentioned", "both", "immediate"),
  "social.comment": social("New comment", "in_app", "daily"),
  "social.announcement": social("Product news", "email", "weekly"),
} satisfies Record<string, Kind>;

export const kindKeys = Object.keys(catalogue) as KindKey[];

export const FORCED = kindKeys.filter((kind) => catalogue[kind].forced);

export function isKind(key: string): key is KindKey {
  return Object.hasOwn(catalogue, key);
}

/** Returns the label of a stored kind: its name, of one that only a newer version knows. */
export function labelOf(kind: string): string {
  return isKind(kind) ? catalogue[kind].label : kind;
}

function deploy(label: string, channel: Channel, frequency: Frequency = "immediate"): Kind {
  return { label, category: "deploy", channel, frequency, forced: false, audience: "editor" };
}

function forced(label: string, category: Category, audience: Audience): Kind {
  return { label, category, channel: "both", frequency: "immediate", forced: true, audience };
}

function billing(label: string): Kind {
  return forced(label, "billing", "owner");
}

function deletion(label: string): Kind {
  return forced(label, "deletion", "owner");
}

function security(label: string): Kind {
  return forced(label, "member", "user");
}

function member(label: string, channel: Channel = "in_app"): Kind {
  return { label, category: "member", channel, frequency: "daily", forced: false, audience: "other_owners" };
}

/** To the owners of the first account, who operate the installation. */
function operators(label: string): Kind {
  return { ...deploy(label, "both"), audience: "owner" };
}

function social(label: string, channel: Channel, frequency: Frequency): Kind {
  return { label, category: "social", channel, frequency, forced: false, audience: "reader" };
}
