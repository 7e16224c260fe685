/** Where builds push images of apps, below the path of the platform's registry. */
const APPS = "apps";
const REPOSITORY = /(?:^|\/)(apps(?:\/(acc_[0-9a-z]{1,40}))?)$/;

export type AppRepository = { name: string; accountId?: string };

/** Returns the repository of an account's images; without an account that of all. */
export function appRepository(accountId?: string): string {
  return accountId === undefined ? APPS : `${APPS}/${accountId}`;
}

/** Returns the repository of apps with which a path ends, if it does. */
export function findAppRepository(path: string): AppRepository | undefined {
  const [, name, accountId] = REPOSITORY.exec(path) ?? [];
  return name === undefined ? undefined : { name, ...(accountId !== undefined && { accountId }) };
}
