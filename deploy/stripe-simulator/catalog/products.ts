import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { clearable, flag, list, map, mergeMetadata, object, range, text } from "../http/params.ts";
import { listRoute, type Route, route, select } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import type { World } from "../state/world.ts";

/** Products, which have prices. */
export function productRoutes(world: World): Route[] {
  const { products, prices, deleted } = world.state;
  return [
    route(
      "POST",
      "/v1/products",
      object<Stripe.ProductCreateParams>(
        {
          name: text,
          id: text,
          active: flag,
          description: text,
          metadata: map,
          statement_descriptor: text,
          tax_code: text,
          unit_label: text,
          url: text,
        },
        "name",
      ),
      (params) => createProduct(world, params),
    ),
    route("GET", "/v1/products/:id", object({}), (_, id) => need(products, "product", id!)),
    route(
      "POST",
      "/v1/products/:id",
      object<Stripe.ProductUpdateParams>({
        name: text,
        active: flag,
        default_price: text,
        description: clearable(text),
        metadata: clearable(map),
        statement_descriptor: text,
        tax_code: clearable(text),
        unit_label: clearable(text),
        url: clearable(text),
      }),
      ({ metadata, ...change }, id) => {
        const product = need(products, "product", id!);
        for (const [name, value] of Object.entries(change))
          Object.assign(product, { [name]: value === "" ? null : value });
        product.metadata = mergeMetadata(product.metadata, metadata);
        product.updated = world.clock.now();
        world.emit("product.updated", product);
        return product;
      },
    ),
    listRoute(
      "/v1/products",
      object<Stripe.ProductListParams>({ active: flag, created: range, ids: list(text) }),
      ({ ids, ...filter }) =>
        select(products.values(), filter).filter((product) => ids?.includes(product.id) ?? true),
    ),
    route("DELETE", "/v1/products/:id", object({}), (_, id) => {
      const product = need(products, "product", id!);
      if ([...prices.values()].some((price) => price.product === id))
        throw invalid("This product cannot be deleted because it has one or more user-created prices.", "id");
      products.delete(product.id);
      const gone = { id: product.id, object: "product", deleted: true } satisfies Stripe.DeletedProduct;
      deleted.set(product.id, gone);
      world.emit("product.deleted", product);
      return gone;
    }),
  ];
}

/** Adds a product. */
export function createProduct(world: World, params: Stripe.ProductCreateParams): Stripe.Product {
  const { state, clock } = world;
  const id = params.id ?? newId("prod", 14);
  if (state.products.has(id)) throw invalid("Product already exists.", "id", "resource_already_exists");
  const product = {
    id,
    object: "product",
    active: params.active ?? true,
    created: clock.now(),
    default_price: null,
    description: params.description ?? null,
    images: [],
    livemode: false,
    marketing_features: [],
    metadata: mergeMetadata({}, params.metadata),
    name: params.name,
    package_dimensions: null,
    shippable: null,
    statement_descriptor: params.statement_descriptor ?? null,
    tax_code: params.tax_code ?? null,
    tax_details: null,
    type: "service",
    unit_label: params.unit_label ?? null,
    updated: clock.now(),
    url: params.url ?? null,
  } satisfies Stripe.Product;
  state.products.set(id, product);
  world.emit("product.created", product);
  return product;
}
