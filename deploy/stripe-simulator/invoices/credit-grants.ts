import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need, needCustomer } from "../http/lookup.ts";
import { clearable, list, map, mergeMetadata, natural, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

type Create = Stripe.Billing.CreditGrantCreateParams;

const CREATE = object<Create>(
  {
    amount: object<Stripe.Billing.CreditGrantCreateParams.Amount>(
      {
        monetary: object<Stripe.Billing.CreditGrantCreateParams.Amount.Monetary>(
          { currency: oneOf("usd"), value: natural },
          "currency",
          "value",
        ),
        type: oneOf("monetary"),
      },
      "type",
      "monetary",
    ),
    applicability_config: object<Stripe.Billing.CreditGrantCreateParams.ApplicabilityConfig>(
      {
        scope: object<Stripe.Billing.CreditGrantCreateParams.ApplicabilityConfig.Scope>({
          price_type: oneOf("metered"),
          prices: list(object<{ id: string }>({ id: text }, "id")),
        }),
      },
      "scope",
    ),
    category: oneOf("paid", "promotional"),
    customer: text,
    effective_at: natural,
    expires_at: natural,
    metadata: map,
    name: text,
    priority: natural,
  },
  "amount",
  "applicability_config",
  "customer",
);

/** Credit grants: prepaid credit for metered prices. */
export function creditGrantRoutes(world: World): Route[] {
  const { creditGrants } = world.state;
  const { clock, emit } = world;
  const change = (id: string, set: Partial<Stripe.Billing.CreditGrant>) => {
    const grant = Object.assign(need(creditGrants, "billing.credit_grant", id), set, {
      updated: clock.now(),
    });
    emit("billing.credit_grant.updated", grant);
    return grant;
  };
  return [
    route("POST", "/v1/billing/credit_grants", CREATE, (params) => createGrant(world, params)),
    route("GET", "/v1/billing/credit_grants/:id", object({}), (_, id) =>
      need(creditGrants, "billing.credit_grant", id!),
    ),
    route(
      "POST",
      "/v1/billing/credit_grants/:id",
      object<Stripe.Billing.CreditGrantUpdateParams>({ expires_at: clearable(natural), metadata: map }),
      ({ expires_at, metadata }, id) => {
        const { metadata: old } = need(creditGrants, "billing.credit_grant", id!);
        return change(id!, {
          ...(expires_at !== undefined && { expires_at: expires_at || null }),
          metadata: mergeMetadata(old, metadata),
        });
      },
    ),
    route("POST", "/v1/billing/credit_grants/:id/expire", object({}), (_, id) =>
      change(id!, { expires_at: clock.now() }),
    ),
    route("POST", "/v1/billing/credit_grants/:id/void", object({}), (_, id) =>
      change(id!, { voided_at: clock.now() }),
    ),
    listRoute(
      "/v1/billing/credit_grants",
      object<Stripe.Billing.CreditGrantListParams>({ customer: text }),
      (filter) => select(creditGrants.values(), filter),
    ),
  ];
}

function createGrant({ state, clock, emit }: World, params: Create): Stripe.Billing.CreditGrant {
  const { price_type, prices } = params.applicability_config.scope;
  if ((price_type === undefined) === (prices === undefined))
    throw invalid("You must provide exactly one of price_type and prices.", "applicability_config[scope]");
  const now = clock.now();
  if (params.expires_at !== undefined && params.expires_at <= now)
    throw invalid("expires_at must be in the future.", "expires_at");
  const grant = {
    id: newId("credgr_test"),
    object: "billing.credit_grant",
    amount: { monetary: params.amount.monetary!, type: "monetary" },
    applicability_config: { scope: prices ? { prices } : { price_type: "metered" } },
    category: params.category ?? "paid",
    created: now,
    customer: needCustomer(state, params.customer).id,
    customer_account: null,
    effective_at: params.effective_at ?? now,
    expires_at: params.expires_at ?? null,
    livemode: false,
    metadata: mergeMetadata({}, params.metadata),
    name: params.name ?? null,
    priority: params.priority ?? 50,
    test_clock: null,
    updated: now,
    voided_at: null,
  } satisfies Stripe.Billing.CreditGrant;
  state.creditGrants.set(grant.id, grant);
  emit("billing.credit_grant.created", grant);
  return grant;
}
