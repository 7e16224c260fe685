import { isObject } from "../../../../kit/process/config.ts";
import { LAUNCHER } from "../../../shared/exec-command.ts";

/** What the labels and the environment of a builder image say (the platform interface of Cloud Native Buildpacks). */
export type BuilderImage = {
  /** The newest version of the interface that its lifecycle and this platform share. */
  platformApi: string;
  /** The image that apps run in, unless the operator names another. */
  runImage?: string;
  /** The user of buildpacks: `uid:gid`. */
  user: string;
  /** The ids of its buildpacks that detection may choose. */
  buildpacks: string[];
};

/** Versions with images as files (OCI layouts), so that nothing in the container needs the registry. */
const PLATFORM_APIS = ["0.14", "0.13", "0.12"];

const METADATA = "io.buildpacks.builder.metadata";
const ORDER = "io.buildpacks.buildpack.order";
const BUILT = "io.buildpacks.build.metadata";

/** The labels that `readBuilderImage` and `readBuiltApp` read. */
export const BUILDER_LABELS = [METADATA, ORDER];
export const APP_LABELS = [BUILT];

/** Returns what a builder image is, or what keeps it from being one, as the end of a sentence. */
export function readBuilderImage(
  labels: Record<string, string>,
  env: Record<string, string>,
): BuilderImage | { problem: string } {
  const metadata = parseObject(labels[METADATA]);
  if (metadata === undefined)
    return { problem: `is no builder of Cloud Native Buildpacks: it has no label ${METADATA}` };
  const { CNB_USER_ID: uid = "", CNB_GROUP_ID: gid = "" } = env;
  if (![uid, gid].every((id) => /^\d+$/.test(id)) || Number(uid) === 0)
    return { problem: "names no user other than root in CNB_USER_ID and CNB_GROUP_ID" };
  const supported = textsIn(member(metadata, "lifecycle", "apis", "platform", "supported"));
  const platformApi = PLATFORM_APIS.find((one) => supported.includes(one));
  if (platformApi === undefined)
    return {
      problem: `has a lifecycle for the platform APIs ${supported.join(", ") || "of no version"}, not for ${PLATFORM_APIS.at(-1)} or newer`,
    };
  const runImage =
    member(metadata, "stack", "runImage", "image") ?? member(first(member(metadata, "images")), "image");
  return {
    platformApi,
    ...(typeof runImage === "string" && runImage !== "" && { runImage }),
    user: `${uid}:${gid}`,
    buildpacks: idsInOrder(labels[ORDER]) ?? idsIn(member(metadata, "buildpacks")),
  };
}

/** Returns the buildpacks of the groups that detection tries, in that order. */
function idsInOrder(label: string | undefined): string[] | undefined {
  const order = parseJson(label);
  if (!Array.isArray(order)) return undefined;
  return [...new Set(order.flatMap((group) => idsIn(member(group, "group"))))];
}

function idsIn(list: unknown): string[] {
  if (!Array.isArray(list)) return [];
  return [...new Set(list.map((one) => member(one, "id")).filter((id) => typeof id === "string"))];
}

function textsIn(list: unknown): string[] {
  return Array.isArray(list) ? list.filter((one) => typeof one === "string") : [];
}

function member(value: unknown, ...path: string[]): unknown {
  return path.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), value);
}

const first = (list: unknown) => (Array.isArray(list) ? list[0] : undefined);

function parseObject(text: string | undefined): Record<string, unknown> | undefined {
  const value = parseJson(text);
  return isObject(value) ? value : undefined;
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}

/** Who took part in an app's image, and the processes that it offers: its label `io.buildpacks.build.metadata`. */
export type BuiltApp = {
  /** As `id@version`. */
  buildpacks: string[];
  /** The commands by their type, as a person would type them. */
  processes: Map<string, string>;
};

export function readBuiltApp(labels: Record<string, string>): BuiltApp {
  const metadata = parseObject(labels[BUILT]);
  const buildpacks = member(metadata, "buildpacks");
  const processes = member(metadata, "processes");
  return {
    buildpacks: (Array.isArray(buildpacks) ? buildpacks : []).flatMap((one) => {
      const [id, version] = [member(one, "id"), member(one, "version")];
      return typeof id === "string" ? [typeof version === "string" ? `${id}@${version}` : id] : [];
    }),
    processes: new Map(
      (Array.isArray(processes) ? processes : []).flatMap((one) => {
        const type = member(one, "type");
        const command = member(one, "command");
        const words = [
          ...(typeof command === "string" ? [command] : textsIn(command)),
          ...textsIn(member(one, "args")),
        ];
        return typeof type === "string" ? [[type, words.join(" ")] as const] : [];
      }),
    ),
  };
}

/** How the image of an app starts: its entrypoint and its arguments, and the command for people. */
export type AppStart = { entrypoint: string[]; args: string[]; command?: string };

/**
 * Returns how an app starts: by the configured command, the process of the service's type, or, for a web service, the
 * image's default process. `entrypoint` is the image's own. Undefined when there is none of these.
 */
export function findStart(
  { processes }: BuiltApp,
  { type, command, entrypoint }: { type: string; command?: string; entrypoint: string[] },
): AppStart | undefined {
  if (command !== undefined) return { entrypoint: [LAUNCHER], args: [command], command };
  const fallback = /^\/cnb\/process\/(.+)$/.exec(entrypoint[0] ?? "")?.[1];
  const chosen = processes.has(type) ? type : type === "web" ? fallback : undefined;
  if (chosen === undefined) return undefined;
  return { entrypoint: [`/cnb/process/${chosen}`], args: [], command: processes.get(chosen) };
}
