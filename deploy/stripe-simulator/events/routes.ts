import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, mergeMetadata, object, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

const MOST_TYPES = 20;

/** GET /v1/events, and the endpoints that events are sent to. */
export function eventRoutes({ state, clock }: World): Route[] {
  const { events, webhookEndpoints } = state;
  return [
    listRoute(
      "/v1/events",
      object<Stripe.EventListParams>({
        created: range,
        type: text,
        types: list(text, MOST_TYPES),
        delivery_success: flag,
      }),
      ({ type, types, delivery_success, ...filter }) => {
        if (type !== undefined && types !== undefined)
          throw invalid("You may only specify one of type, types", "types");
        return select(events.values(), filter).filter(
          (event) =>
            (type === undefined || matchesType(type, event.type)) &&
            (types === undefined || types.some((one) => matchesType(one, event.type))) &&
            (delivery_success === undefined || delivery_success === (event.pending_webhooks === 0)),
        );
      },
    ),
    route("GET", "/v1/events/:id", object({}), (_, id) => need(events, "event", id!)),
    listRoute("/v1/webhook_endpoints", object<Stripe.WebhookEndpointListParams>({}), () =>
      // The secret is shown only once, when the endpoint is created.
      [...webhookEndpoints.values()].map(({ secret: _, ...endpoint }) => endpoint),
    ),
    route(
      "POST",
      "/v1/webhook_endpoints",
      object<Stripe.WebhookEndpointCreateParams>(
        {
          url: text,
          enabled_events: list(text),
          api_version: text,
          description: clearable(text),
          metadata: clearable(map),
        },
        "url",
        "enabled_events",
      ),
      (params) => {
        const endpoint = createEndpoint(params, clock.now(), newId("whsec", 32));
        webhookEndpoints.set(endpoint.id, endpoint);
        return endpoint;
      },
    ),
    route("GET", "/v1/webhook_endpoints/:id", object({}), (_, id) => {
      const { secret: __, ...endpoint } = need(webhookEndpoints, "webhook endpoint", id!);
      return endpoint;
    }),
    route(
      "POST",
      "/v1/webhook_endpoints/:id",
      object<Stripe.WebhookEndpointUpdateParams>({
        url: text,
        enabled_events: list(text),
        description: clearable(text),
        disabled: flag,
        metadata: clearable(map),
      }),
      ({ disabled, description, metadata, ...change }, id) => {
        const endpoint = need(webhookEndpoints, "webhook endpoint", id!);
        Object.assign(endpoint, change, {
          ...(disabled !== undefined && { status: disabled ? "disabled" : "enabled" }),
          ...(description !== undefined && { description: description || null }),
          metadata: mergeMetadata(endpoint.metadata, metadata),
        });
        const { secret: _, ...shown } = endpoint;
        return shown;
      },
    ),
    route("DELETE", "/v1/webhook_endpoints/:id", object({}), (_, id) => {
      webhookEndpoints.delete(need(webhookEndpoints, "webhook endpoint", id!).id);
      return { id: id!, object: "webhook_endpoint", deleted: true } satisfies Stripe.DeletedWebhookEndpoint;
    }),
  ];
}

/** Returns a new endpoint. */
export function createEndpoint(
  params: Stripe.WebhookEndpointCreateParams,
  now: number,
  secret: string,
): Stripe.WebhookEndpoint {
  return {
    id: newId("we"),
    object: "webhook_endpoint",
    api_version: params.api_version ?? null,
    application: null,
    created: now,
    description: params.description || null,
    enabled_events: params.enabled_events,
    livemode: false,
    metadata: mergeMetadata({}, params.metadata),
    secret,
    status: "enabled",
    url: params.url,
  } satisfies Stripe.WebhookEndpoint;
}

function matchesType(wanted: string, type: string): boolean {
  return wanted.endsWith("*") ? type.startsWith(wanted.slice(0, -1)) : wanted === type;
}
