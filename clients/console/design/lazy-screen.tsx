import { lazyRouteComponent } from "@tanstack/react-router";
import { type ComponentType, type LazyExoticComponent, lazy, useEffect, useState } from "react";
import { Unreachable } from "../../typescript/src/index.ts";
import { Failure, Loading } from "./state.tsx";

/** The file of a screen did not come. */
export class MissingScreen extends Error {}

const orMissing = (error: unknown): never => {
  throw new MissingScreen("A file of the console did not come.", { cause: error });
};

/** A screen whose file is loaded when it is opened, or about to be. */
export const lazyScreen = <Name extends string>(
  load: () => Promise<Record<Name, ComponentType>>,
  name: Name,
) => lazyRouteComponent(() => load().catch(orMissing), name);

/** A large part of a screen, likewise. */
export const lazyPart = <Props,>(
  load: () => Promise<ComponentType<Props>>,
): LazyExoticComponent<ComponentType<Props>> =>
  lazy(() =>
    load().then(
      (component) => ({ default: component }),
      (error: unknown) => orMissing(error),
    ),
  );

const RELOADED = "berth-reloaded";

/**
 * What is shown in place of a screen whose file did not come. Where Berth can be reached the file is of an earlier version,
 * which it has no more, and the page is loaded anew, once a minute at most. Elsewhere that would lose the page as well.
 */
export function Missing() {
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    if (error === undefined) reload().catch(setError);
  }, [error]);
  if (error === undefined) return <Loading />;
  return <Failure isScreen error={error} retry={() => setError(undefined)} />;
}

async function reload(): Promise<void> {
  const page = await fetch(location.href, { method: "HEAD", cache: "no-store" }).catch(() => undefined);
  if (!page?.ok) throw new Unreachable("The console cannot be loaded.");
  const isAgain = Date.now() - Number(sessionStorage.getItem(RELOADED) ?? 0) < 60_000;
  if (isAgain) throw new MissingScreen("A file of the console did not come, though the page did.");
  sessionStorage.setItem(RELOADED, String(Date.now()));
  location.reload();
}
