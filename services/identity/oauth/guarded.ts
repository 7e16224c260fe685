import { refuse } from "../../kit/rpc/refusals.ts";
import { providerFailures } from "./metrics.ts";
import { type IdentityProvider, ProviderUnavailable } from "./port.ts";

/** Wraps a provider so that its failures become refusals: 502 identity_provider_unavailable. */
export function guarded(provider: IdentityProvider): IdentityProvider {
  return new Proxy(provider, {
    get(target, name: keyof IdentityProvider) {
      const method = target[name] as (...values: unknown[]) => Promise<unknown>;
      return (...values: unknown[]) =>
        method.apply(target, values).catch((error: unknown) => {
          if (!(error instanceof ProviderUnavailable)) throw error;
          providerFailures.inc({ method: name });
          throw refuse(
            502,
            "identity_provider_unavailable",
            "The identity provider does not answer. Try again.",
          );
        });
    },
  });
}
