import { checked, choice, type Field, optionalUrl } from "../../kit/process/config.ts";

const MAX_SECRETS = 2;

/** The secrets of the webhook endpoint: one, or during a rotation both, separated by a comma. */
const webhookSecrets: Field<string[]> = {
  name: "STRIPE_WEBHOOK_SECRETS",
  parse: (value) => {
    const secrets = (value ?? "").split(",").flatMap((part) => part.trim() || []);
    if (secrets.length > MAX_SECRETS || secrets.some((secret) => !secret.startsWith("whsec_")))
      throw new Error("must be one or two signing secrets, each beginning with whsec_, separated by a comma");
    return secrets;
  },
};

/** What an installation is called at Stripe: a part of ids and names there. */
const INSTALLATION = /^[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?$/;

/** How Stripe is reached. Without a key nothing can be bought. */
export const stripeFields = {
  stripeKey: checked(
    "STRIPE_SECRET_KEY",
    (value) => /^[sr]k_(test|live)_/.test(value),
    "must be a secret or restricted key of Stripe, beginning with sk_ or rk_",
  ),
  stripeWebhookSecrets: webhookSecrets,
  /** Keeps what is this installation's at Stripe apart from what is another's. */
  stripeInstallation: checked(
    "STRIPE_INSTALLATION",
    (value) => INSTALLATION.test(value),
    "must be 1 to 20 of a-z, 0-9 and -, and begin and end with a letter or digit",
  ),
  /** Whether Stripe Tax adds taxes to what is sold. */
  stripeTax: choice("STRIPE_TAX", ["on", "off"] as const, "off"),
  /** Where Stripe's API is, if not at Stripe: a simulator. */
  stripeUrl: optionalUrl("STRIPE_API_URL", ["http", "https"]),
};
