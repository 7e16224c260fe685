import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { object, oneOf, text } from "../http/params.ts";
import { type Route, route } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

/** Sessions of the billing portal: pages of one customer, open to whoever has the URL. */
export function portalSessionRoutes({ state, clock, url }: World): Route[] {
  return [
    route(
      "POST",
      "/v1/billing_portal/sessions",
      object<Stripe.BillingPortal.SessionCreateParams>(
        { configuration: text, customer: text, locale: oneOf("auto", "en"), return_url: text },
        "customer",
      ),
      (params) => {
        const customer = needCustomer(state, params.customer);
        const configuration = params.configuration ?? state.portalConfigurations.keys().next().value;
        if (configuration === undefined)
          throw invalid(
            "No configuration provided and your test mode default configuration has not been created.",
            "configuration",
          );
        const { active, default_return_url } = need(
          state.portalConfigurations,
          "configuration",
          configuration,
          "configuration",
        );
        if (!active) throw invalid("This configuration is not active.", "configuration");
        const id = newId("bps");
        const session = {
          id,
          object: "billing_portal.session",
          configuration,
          created: clock.now(),
          customer: customer.id,
          customer_account: null,
          flow: null,
          livemode: false,
          locale: params.locale ?? null,
          on_behalf_of: null,
          return_url: params.return_url ?? default_return_url,
          url: `${url}/p/${id}`,
        } satisfies Stripe.BillingPortal.Session;
        state.portalSessions.set(id, session);
        return session;
      },
    ),
  ];
}
