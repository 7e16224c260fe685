import Stripe from "stripe";
import { EVENT_TYPES } from "./event-types.ts";
import { ownedBy } from "./installation.ts";
import type { Provider } from "./provider.ts";

/** The path of webhooks on the public origin. */
export const WEBHOOK_PATH = "/webhooks/stripe";

/**
 * Has the payment provider report to an installation. Returns the signing secret of a new endpoint, which the provider
 * shows only now; undefined when there is an endpoint for its URL.
 */
export async function ensureWebhookEndpoint(provider: Provider, origin: string): Promise<string | undefined> {
  const url = origin + WEBHOOK_PATH;
  return provider.ask(async (stripe) => {
    for await (const endpoint of stripe.webhookEndpoints.list({ limit: 100 }))
      if (endpoint.url === url) return undefined;
    const { secret } = await stripe.webhookEndpoints.create({
      url,
      enabled_events: EVENT_TYPES.flat(),
      api_version: Stripe.API_VERSION,
      metadata: ownedBy(provider.installation),
    });
    return secret;
  });
}
