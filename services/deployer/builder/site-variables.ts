/** The variables of a service that its build may write into a site (docs/deployments.md#what-a-build-sees). */
export type SiteVariables = {
  /** What the build's commands see, by name. */
  values: Record<string, string>;
  /** The names of those that they do not see, because they are sensitive. */
  sensitive: string[];
  /** The names of those that they do not see, because all together would be too large. */
  large: string[];
};

/** Bytes of all together, as JSON: a build on a cluster gets its request in one variable, of at most 128 KiB. */
const MAX_BYTES = 64 * 1024;
/** So many names of those that are left out are kept. */
const MAX_NAMED = 50;

/**
 * How the names begin by which the tools for sites know what they may write into one: Vite, Next.js, Nuxt, SvelteKit and
 * Astro, Create React App, Vue CLI, Gatsby, Expo, Angular.
 */
const PREFIXES = [
  "VITE_",
  "NEXT_PUBLIC_",
  "NUXT_PUBLIC_",
  "PUBLIC_",
  "REACT_APP_",
  "VUE_APP_",
  "GATSBY_",
  "EXPO_PUBLIC_",
  "NG_APP_",
];

/** Picks them from a service's resolved variables and its `config.env`, in which a variable of the same name wins. */
export function toSiteVariables(
  variables: readonly { name: string; value: string; sensitive: boolean }[],
  env: Record<string, string> = {},
): SiteVariables {
  const given = Object.entries(env).map(([name, value]) => ({ name, value, sensitive: false }));
  const found = new Map([...given, ...variables].map((one) => [one.name, one]));
  const site: SiteVariables = { values: {}, sensitive: [], large: [] };
  let bytes = 0;
  for (const { name, value, sensitive } of found.values()) {
    if (!isForSite(name)) continue;
    if (sensitive) site.sensitive.push(name);
    else if (bytes + sizeOf(name, value) > MAX_BYTES) site.large.push(name);
    else {
      site.values[name] = value;
      bytes += sizeOf(name, value);
    }
  }
  return { ...site, sensitive: site.sensitive.slice(0, MAX_NAMED), large: site.large.slice(0, MAX_NAMED) };
}

const isForSite = (name: string) => PREFIXES.some((prefix) => name.startsWith(prefix));
const sizeOf = (name: string, value: string) => Buffer.byteLength(JSON.stringify([name, value]));

const words = new Intl.ListFormat("en-GB");

/** Tells the reader of a build's log what of these the build sees, and what not. */
export function logSiteVariables(site: SiteVariables | undefined, log: (line: string) => void): void {
  const { values = {}, sensitive = [], large = [] } = site ?? {};
  const say = (names: string[], sentence: (list: string) => string) => {
    if (names.length > 0) log(sentence(words.format(names.toSorted())));
  };
  say(Object.keys(values), (names) => `The build sees ${names}.`);
  const reason = "everybody can read what a build writes into a site";
  say(sensitive, (names) => `The build does not see ${names}, marked as sensitive: ${reason}.`);
  say(large, (names) => `The build does not see ${names}: such variables have at most 64 KiB together.`);
}
