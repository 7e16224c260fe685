import type { Command } from "./command.ts";

/** A word after `berth`, and what loads its commands: only those that are run are read. */
export type Entry = { word: string; summary: string; load: () => Promise<Command[]> };
export type Section = { title: string; entries: Entry[] };

/** All commands, as `berth help` shows them. */
export const SECTIONS: Section[] = [
  {
    title: "Begin",
    entries: [
      {
        word: "login",
        summary: "Sign in to an installation",
        load: async () => (await import("./commands/session/login.ts")).commands,
      },
      {
        word: "logout",
        summary: "Forget the sign-in, and end the access",
        load: async () => (await import("./commands/session/logout.ts")).commands,
      },
      {
        word: "whoami",
        summary: "Show who is signed in, and where",
        load: async () => (await import("./commands/session/whoami.ts")).commands,
      },
      {
        word: "init",
        summary: "Create a project and link this folder to it",
        load: async () => (await import("./commands/catalog/init.ts")).commands,
      },
      {
        word: "link",
        summary: "Link this folder to a service that exists",
        load: async () => (await import("./commands/catalog/link.ts")).commands,
      },
    ],
  },
  {
    title: "Deploy",
    entries: [
      {
        word: "up",
        summary: "Deploy a folder and follow it until it is healthy",
        load: async () => (await import("./commands/deploy/up.ts")).commands,
      },
      {
        word: "deploy",
        summary: "Deploy an image, a git branch, or what is live",
        load: async () => (await import("./commands/deploy/deploy.ts")).commands,
      },
      {
        word: "rollback",
        summary: "Deploy an earlier version again",
        load: async () => (await import("./commands/deploy/rollback.ts")).commands,
      },
      {
        word: "cancel",
        summary: "Cancel a deployment",
        load: async () => (await import("./commands/deploy/cancel.ts")).commands,
      },
      {
        word: "restart",
        summary: "Restart what is live",
        load: async () => (await import("./commands/deploy/restart.ts")).commands,
      },
      {
        word: "jobs",
        summary: "Run a command beside a service, and list runs",
        load: async () => (await import("./commands/deploy/jobs.ts")).commands,
      },
      {
        word: "scale",
        summary: "Change replicas and size",
        load: async () => (await import("./commands/deploy/scale.ts")).commands,
      },
    ],
  },
  {
    title: "See",
    entries: [
      {
        word: "status",
        summary: "Show the services of an environment",
        load: async () => (await import("./commands/catalog/status.ts")).commands,
      },
      {
        word: "logs",
        summary: "Show what a service logs, or a build",
        load: async () => (await import("./commands/deploy/logs.ts")).commands,
      },
      {
        word: "metrics",
        summary: "Show what a service uses, and its requests",
        load: async () => (await import("./commands/deploy/metrics.ts")).commands,
      },
      {
        word: "open",
        summary: "Open a service in the browser",
        load: async () => (await import("./commands/catalog/open.ts")).commands,
      },
      {
        word: "usage",
        summary: "Show what services cost in this period",
        load: async () => (await import("./commands/tools/usage.ts")).commands,
      },
    ],
  },
  {
    title: "Configure",
    entries: [
      {
        word: "vars",
        summary: "List, set and explain variables",
        load: async () => (await import("./commands/variables/vars.ts")).commands,
      },
      {
        word: "run",
        summary: "Run a command with a service's variables",
        load: async () => (await import("./commands/variables/run.ts")).commands,
      },
      {
        word: "projects",
        summary: "List, create and delete projects",
        load: async () => (await import("./commands/catalog/projects.ts")).commands,
      },
      {
        word: "envs",
        summary: "List, create, apply and delete environments",
        load: async () => (await import("./commands/catalog/envs.ts")).commands,
      },
      {
        word: "services",
        summary: "List, create and delete services",
        load: async () => (await import("./commands/catalog/services.ts")).commands,
      },
      {
        word: "domains",
        summary: "List, add and remove domains",
        load: async () => (await import("./commands/catalog/domains.ts")).commands,
      },
      {
        word: "addons",
        summary: "List addons, connect to one, and exchange two",
        load: async () => (await import("./commands/addons/addons.ts")).commands,
      },
      {
        word: "backups",
        summary: "Back up addons, and restore them",
        load: async () => (await import("./commands/addons/backups.ts")).commands,
      },
      {
        word: "fork",
        summary: "Make another addon with the data of one",
        load: async () => (await import("./commands/addons/fork.ts")).commands,
      },
      {
        word: "members",
        summary: "List, invite and remove members",
        load: async () => (await import("./commands/tools/members.ts")).commands,
      },
      {
        word: "registries",
        summary: "Store logins for private images",
        load: async () => (await import("./commands/tools/registries.ts")).commands,
      },
      {
        word: "webhooks",
        summary: "Send what happens to a URL",
        load: async () => (await import("./commands/tools/webhooks.ts")).commands,
      },
    ],
  },
  {
    title: "More",
    entries: [
      {
        word: "api",
        summary: "Send any request of the API",
        load: async () => (await import("./commands/tools/api.ts")).commands,
      },
      {
        word: "mcp",
        summary: "Serve the tools of MCP over stdio",
        load: async () => (await import("./commands/tools/mcp.ts")).commands,
      },
      {
        word: "completion",
        summary: "Print completion for bash, zsh or fish",
        load: async () => (await import("./commands/tools/completion.ts")).commands,
      },
      {
        word: "doctor",
        summary: "Check what a command needs",
        load: async () => (await import("./commands/tools/doctor.ts")).commands,
      },
    ],
  },
];

export const ENTRIES: Entry[] = SECTIONS.flatMap(({ entries }) => entries);

/** Returns the commands of all words. */
export async function loadAll(): Promise<Command[]> {
  return (await Promise.all(ENTRIES.map(({ load }) => load()))).flat();
}
