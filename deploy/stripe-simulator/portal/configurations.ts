import type Stripe from "stripe";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, mergeMetadata, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

type Create = Stripe.BillingPortal.ConfigurationCreateParams;
type Features = Stripe.BillingPortal.ConfigurationCreateParams.Features;

const toggle = object<{ enabled: boolean }>({ enabled: flag }, "enabled");
const prorationBehavior = oneOf("always_invoice", "create_prorations", "none");

const features = object<Features>({
  customer_update: object<NonNullable<Features["customer_update"]>>(
    {
      enabled: flag,
      allowed_updates: clearable(list(oneOf("address", "email", "name", "phone", "shipping", "tax_id"))),
    },
    "enabled",
  ),
  invoice_history: toggle,
  payment_method_update: toggle,
  subscription_cancel: object<NonNullable<Features["subscription_cancel"]>>(
    { enabled: flag, mode: oneOf("at_period_end", "immediately"), proration_behavior: prorationBehavior },
    "enabled",
  ),
  subscription_pause: object<NonNullable<Features["subscription_pause"]>>({ enabled: flag }),
  subscription_update: object<NonNullable<Features["subscription_update"]>>(
    {
      enabled: flag,
      default_allowed_updates: clearable(list(oneOf("price", "promotion_code", "quantity"))),
      proration_behavior: prorationBehavior,
    },
    "enabled",
  ),
});

const businessProfile = object<Stripe.BillingPortal.ConfigurationCreateParams.BusinessProfile>({
  headline: clearable(text),
  privacy_policy_url: text,
  terms_of_service_url: text,
});

const shared = {
  business_profile: businessProfile,
  default_return_url: clearable(text),
  features,
  metadata: clearable(map),
  name: clearable(text),
};

/** Configurations of the billing portal: what customers may do there. */
export function portalConfigurationRoutes(world: World): Route[] {
  const { portalConfigurations } = world.state;
  const path = "/v1/billing_portal/configurations";
  return [
    route("POST", path, object<Create>(shared, "features"), (params) => createConfiguration(world, params)),
    route("GET", `${path}/:id`, object({}), (_, id) =>
      need(portalConfigurations, "billing_portal.configuration", id!),
    ),
    route(
      "POST",
      `${path}/:id`,
      object<Stripe.BillingPortal.ConfigurationUpdateParams>({ ...shared, active: flag }),
      ({ active, business_profile, default_return_url, features: changed, metadata, name }, id) => {
        const row = need(portalConfigurations, "billing_portal.configuration", id!);
        if (active !== undefined) row.active = active;
        Object.assign(row.business_profile, business_profile);
        if (default_return_url !== undefined) row.default_return_url = default_return_url || null;
        for (const [feature, value] of Object.entries(changed ?? {}))
          Object.assign(row.features[feature as keyof Features], value);
        if (name !== undefined) row.name = name || null;
        row.metadata = mergeMetadata(row.metadata, metadata);
        row.updated = world.clock.now();
        world.emit("billing_portal.configuration.updated", row);
        return row;
      },
    ),
    listRoute(
      path,
      object<Stripe.BillingPortal.ConfigurationListParams>({ active: flag, is_default: flag }),
      (filter) => select(portalConfigurations.values(), filter),
    ),
  ];
}

function createConfiguration(
  { state, clock, emit }: World,
  params: Create,
): Stripe.BillingPortal.Configuration {
  const wanted = params.features;
  const now = clock.now();
  const row = {
    id: newId("bpc"),
    object: "billing_portal.configuration",
    active: true,
    application: null,
    business_profile: {
      headline: params.business_profile?.headline || null,
      privacy_policy_url: params.business_profile?.privacy_policy_url ?? null,
      terms_of_service_url: params.business_profile?.terms_of_service_url ?? null,
    },
    created: now,
    default_return_url: params.default_return_url || null,
    features: {
      customer_update: {
        allowed_updates: wanted.customer_update?.allowed_updates || [],
        enabled: wanted.customer_update?.enabled ?? false,
      },
      invoice_history: { enabled: wanted.invoice_history?.enabled ?? false },
      payment_method_update: {
        enabled: wanted.payment_method_update?.enabled ?? false,
        payment_method_configuration: null,
      },
      subscription_cancel: {
        cancellation_reason: { enabled: false, feedback_options: null, options: [] },
        enabled: wanted.subscription_cancel?.enabled ?? false,
        mode: wanted.subscription_cancel?.mode ?? "at_period_end",
        proration_behavior: wanted.subscription_cancel?.proration_behavior ?? "none",
      },
      subscription_pause: {
        duration: { interval_options: [], type: "indefinite" },
        enabled: wanted.subscription_pause?.enabled ?? false,
      },
      subscription_update: {
        billing_cycle_anchor: null,
        default_allowed_updates: wanted.subscription_update?.default_allowed_updates || [],
        enabled: wanted.subscription_update?.enabled ?? false,
        proration_behavior: wanted.subscription_update?.proration_behavior ?? "none",
        schedule_at_period_end: { conditions: [] },
        trial_update_behavior: "end_trial",
      },
    },
    is_default: false,
    livemode: false,
    login_page: { enabled: false, url: null },
    metadata: mergeMetadata({}, params.metadata),
    name: params.name || null,
    updated: now,
  } satisfies Stripe.BillingPortal.Configuration;
  state.portalConfigurations.set(row.id, row);
  emit("billing_portal.configuration.created", row);
  return row;
}
