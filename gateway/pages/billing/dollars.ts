/** Formats US dollars: `$1,000.00`. */
export function dollars(usd: number): string {
  return new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" }).format(usd);
}
