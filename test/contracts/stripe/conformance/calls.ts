import type { Stripe } from "stripe";
import type { RequestTypes } from "./request-types.ts";

/** The calls of the SDK behind requests, with every parameter that Berth gives. */
export type Calls = { [R in keyof RequestTypes]?: ((stripe: Stripe) => Promise<unknown>)[] };

/** 2026-11-01, in seconds since 1970. */
export const CREATED = 1_793_491_200;
