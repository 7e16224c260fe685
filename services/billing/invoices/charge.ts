// Amounts are cents of a US dollar.

/** The provider carries less to the customer's next invoice. */
const LEAST_CHARGE = 50;

/** The balance of a customer: less than 0 is the customer's. */
export type Balance = { cents: number };

/** Returns what an invoice charges once the balance is taken into account, which changes as at the provider. */
export function chargeOf(totalCents: number, balance: Balance): number {
  const owed = totalCents + balance.cents;
  const charged = owed < LEAST_CHARGE ? 0 : owed;
  balance.cents = owed - charged;
  return charged;
}
