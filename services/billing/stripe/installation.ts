import type Stripe from "stripe";

// Several installations may share one account at Stripe. Each but one has a name, which everything that it makes there has
// as a suffix and in its metadata. What has no name belongs to the installation without one, such as of an earlier version.

/** Returns the name at Stripe of something that an installation makes. */
export function nameAt(installation: string, name: string): string {
  return installation === "" ? name : `${name}_${installation}`;
}

/** Returns the metadata that says whose something is. */
export function ownedBy(installation: string): { installation?: string } {
  return installation === "" ? {} : { installation };
}

type Marked = { metadata?: Stripe.Metadata | null };

/** Whether metadata says that something is an installation's. */
export function isOwn(installation: string, { metadata }: Marked): boolean {
  return (metadata?.installation ?? "") === installation;
}

/**
 * Whether what an event is about says that it is another installation's. Payments, refunds and some others do not say
 * whose they are; their customer does.
 */
export function isOthers(installation: string, { data }: Stripe.Event): boolean {
  const about = data.object as Marked & { parent?: { subscription_details?: Marked | null } | null };
  const of = about.parent?.subscription_details?.metadata;
  const named = [about.metadata?.installation, of?.installation].find((name) => typeof name === "string");
  return named !== undefined && named !== installation;
}
