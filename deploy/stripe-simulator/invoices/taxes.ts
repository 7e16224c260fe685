import type Stripe from "stripe";
import { invalid } from "../http/errors.ts";
import { need } from "../http/lookup.ts";
import { address, map, natural, object, oneOf, text } from "../http/params.ts";
import { listRoute, type Route, route } from "../http/routes.ts";
import { newId } from "../state/ids.ts";
import { idOf, type World } from "../state/world.ts";

/** What the simulator knows of the tax of countries, in percent. */
const PERCENT: Record<string, number> = { CH: 8.1, DE: 19, FR: 20, GB: 20, IT: 22, NL: 21 };

/** Stripe Tax: its settings, the registrations by which tax is collected in a country, and the rates that follow. */
export function taxRoutes(world: World): Route[] {
  const { state, clock } = world;
  return [
    route("GET", "/v1/tax/settings", object({}), () => toSettings(world)),
    route(
      "POST",
      "/v1/tax/settings",
      object<Stripe.Tax.SettingsUpdateParams>({
        defaults: object<Stripe.Tax.SettingsUpdateParams.Defaults>({
          tax_behavior: oneOf("exclusive", "inclusive", "inferred_by_currency"),
          tax_code: text,
        }),
        head_office: object<Stripe.Tax.SettingsUpdateParams.HeadOffice>({ address }),
      }),
      ({ defaults, head_office: office }) => {
        Object.assign(state.tax, defaults, office && { country: office.address.country ?? "" });
        return toSettings(world);
      },
    ),
    route(
      "POST",
      "/v1/tax/registrations",
      object<Stripe.Tax.RegistrationCreateParams>(
        {
          active_from: (value, path) => (value === "now" ? value : natural(value, path)),
          country: text,
          country_options: anything,
        },
        "active_from",
        "country",
        "country_options",
      ),
      ({ country }) => {
        const row = {
          id: newId("taxreg"),
          object: "tax.registration",
          active_from: clock.now(),
          country,
          country_options: {},
          created: clock.now(),
          expires_at: null,
          livemode: false,
          status: "active",
        } satisfies Stripe.Tax.Registration;
        state.taxRegistrations.set(row.id, row);
        return row;
      },
    ),
    listRoute(
      "/v1/tax/registrations",
      object<Stripe.Tax.RegistrationListParams>({ status: oneOf("active", "all", "expired", "scheduled") }),
      () => [...state.taxRegistrations.values()],
    ),
    route("GET", "/v1/tax_rates/:id", object({}), (_, id) => {
      const country = id!.slice(RATE.length);
      const percentage = PERCENT[country];
      if (!id!.startsWith(RATE) || percentage === undefined)
        return need(new Map<string, Stripe.TaxRate>(), "tax rate", id!);
      return toRate(country, percentage);
    }),
  ];
}

const RATE = "txr_";
const anything = (value: unknown, path: string) => (typeof value === "object" ? value : map(value, path));

/** Puts the tax of its customer's country on the lines of an invoice that has automatic tax. */
export function applyTaxes(world: World, invoice: Stripe.Invoice): void {
  if (!invoice.automatic_tax.enabled) return;
  const country = world.state.customers.get(idOf(invoice.customer ?? ""))?.address?.country;
  invoice.automatic_tax.status = country ? "complete" : "requires_location_inputs";
  const percent = country ? percentOf(world, country) : undefined;
  for (const line of invoice.lines.data) {
    const discounts = (line.pretax_credit_amounts ?? []).reduce((sum, { amount }) => sum + amount, 0);
    line.taxes = percent === undefined ? [] : [toTax(`${RATE}${country}`, percent, line.amount - discounts)];
  }
}

/** Returns the tax of an amount at a rate. */
export function toTax(tax_rate: string, percent: number, taxable: number) {
  return {
    amount: Math.sign(taxable) * Math.round((Math.abs(taxable) * percent) / 100),
    tax_behavior: "exclusive",
    tax_rate_details: { tax_rate },
    taxability_reason: "standard_rated",
    taxable_amount: taxable,
    type: "tax_rate_details",
  } satisfies Stripe.InvoiceLineItem.Tax;
}

/** Throws where tax is to be calculated for a customer of whom no country is known. */
export function requireLocation({ state }: World, customer: string): void {
  if (!state.customers.get(customer)?.address?.country)
    throw invalid(
      "The customer's location isn't recognized. Set a valid customer address in order to automatically calculate tax.",
      "automatic_tax",
      "customer_tax_location_invalid",
    );
}

/** Returns the percentage of a line's or a note's tax rate. */
export function percentOfRate(rate: string): number {
  return PERCENT[rate.slice(RATE.length)] ?? 0;
}

function percentOf({ state }: World, country: string): number | undefined {
  const isRegistered = [...state.taxRegistrations.values()].some((one) => one.country === country);
  return isRegistered ? PERCENT[country] : undefined;
}

function toSettings({ state }: World): Stripe.Tax.Settings {
  const { country, tax_behavior = null, tax_code = null } = state.tax;
  const missing = [...(country ? [] : ["head_office"]), ...(tax_code ? [] : ["defaults.tax_code"])];
  return {
    object: "tax.settings",
    defaults: { provider: "stripe", tax_behavior, tax_code },
    head_office: null,
    livemode: false,
    status: missing.length === 0 ? "active" : "pending",
    status_details: missing.length === 0 ? { active: {} } : { pending: { missing_fields: missing } },
  } satisfies Stripe.Tax.Settings;
}

function toRate(country: string, percentage: number): Stripe.TaxRate {
  return {
    id: `${RATE}${country}`,
    object: "tax_rate",
    active: false,
    country,
    created: 0,
    description: null,
    display_name: "VAT",
    effective_percentage: percentage,
    flat_amount: null,
    inclusive: false,
    jurisdiction: country,
    jurisdiction_level: "country",
    livemode: false,
    metadata: {},
    percentage,
    rate_type: "percentage",
    state: null,
    tax_type: "vat",
  } satisfies Stripe.TaxRate;
}
