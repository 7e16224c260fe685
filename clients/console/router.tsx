import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { Failure, Loading } from "./design/state.tsx";
import { Entrance } from "./screens/frame/entrance.tsx";
import { Frame } from "./screens/frame/frame.tsx";
import { NotFound } from "./screens/frame/not-found.tsx";

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });

const entrance = createRoute({ getParentRoute: () => root, path: "/", component: Entrance });

const home = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId",
  component: lazyRouteComponent(() => import("./screens/home/home.tsx"), "Home"),
});

const members = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/members",
  component: lazyRouteComponent(() => import("./screens/members/members.tsx"), "Members"),
});

const tokens = createRoute({
  getParentRoute: () => root,
  path: "/me/tokens",
  component: lazyRouteComponent(() => import("./screens/tokens/tokens.tsx"), "Tokens"),
});

// The paths are those of the API, so that whoever knows one address knows the other.
const environment = createRoute({
  getParentRoute: () => root,
  path: "/accounts/$accountId/projects/$projectId/environments/$environmentId",
  component: lazyRouteComponent(() => import("./screens/environment/layout.tsx"), "EnvironmentLayout"),
});

const services = createRoute({
  getParentRoute: () => environment,
  path: "/",
  component: lazyRouteComponent(() => import("./screens/environment/services.tsx"), "Services"),
});

const service = createRoute({
  getParentRoute: () => environment,
  path: "/services/$service",
  component: lazyRouteComponent(() => import("./screens/service/layout.tsx"), "ServiceLayout"),
});

const deployments = createRoute({
  getParentRoute: () => service,
  path: "/",
  validateSearch: ({ deploy }: { deploy?: boolean }) => (deploy === true ? { deploy } : {}),
  component: lazyRouteComponent(() => import("./screens/service/deployments.tsx"), "Deployments"),
});

const deployment = createRoute({
  getParentRoute: () => service,
  path: "/deployments/$version",
  component: lazyRouteComponent(() => import("./screens/service/deployment.tsx"), "DeploymentScreen"),
});

const logs = createRoute({
  getParentRoute: () => service,
  path: "/logs",
  component: lazyRouteComponent(() => import("./screens/logs/logs.tsx"), "Logs"),
});

const runs = createRoute({
  getParentRoute: () => service,
  path: "/runs",
  component: lazyRouteComponent(() => import("./screens/service/runs.tsx"), "Runs"),
});

const run = createRoute({
  getParentRoute: () => service,
  path: "/runs/$runId",
  component: lazyRouteComponent(() => import("./screens/service/run.tsx"), "RunScreen"),
});

const variables = createRoute({
  getParentRoute: () => service,
  path: "/variables",
  component: lazyRouteComponent(() => import("./screens/variables/variables.tsx"), "Variables"),
});

const settings = createRoute({
  getParentRoute: () => service,
  path: "/settings",
  component: lazyRouteComponent(() => import("./screens/settings/settings.tsx"), "Settings"),
});

export const router = createRouter({
  basepath: "/console",
  routeTree: root.addChildren([
    entrance,
    home,
    members,
    tokens,
    environment.addChildren([
      services,
      service.addChildren([deployments, deployment, logs, runs, run, variables, settings]),
    ]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: Loading,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  defaultNotFoundComponent: NotFound,
});

declare module "@tanstack/react-router" {
  // biome-ignore lint/style/useConsistentTypeDefinitions: an interface is merged with the library's own.
  interface Register {
    router: typeof router;
  }
}
