import {
  type BuildPlan,
  commandStep,
  type DetectionInput,
  failDetection,
  type SourceTree,
} from "./build-plan.ts";
import { installTool, TOOLS_PATH } from "./package-manager.ts";

const CONFIGS = ["deno.json", "deno.jsonc"];
const MAIN = ["main.ts", "server.ts", "mod.ts", "index.ts", "main.js", "server.js"];
/** What Deno fetches stays with the app: it starts without a network. */
const CACHE = "DENO_DIR=.deno";

/** Returns the plan of a source with a deno.json and no package.json; undefined for any other. */
export function detectDeno(tree: SourceTree, input: DetectionInput): BuildPlan | undefined {
  const file = CONFIGS.find((one) => tree.exists(one));
  if (file === undefined) return undefined;
  if (!input.hasTool("npm"))
    failDetection("toolchain_missing", "This is a Deno app, but npm, which brings Deno, is not installed.");
  const config = tree.read(file) ?? "";
  const main = MAIN.find((one) => tree.exists(one));
  const start = /"start"\s*:\s*["{]/.test(config)
    ? `${CACHE} deno task start`
    : main && `${CACHE} deno run --allow-all ${main}`;
  const command = input.command ?? start;
  if (command === undefined)
    return failDetection(
      "start_command_missing",
      `The ${file} has no task “start”, and there is no main.ts. Add one, or set the service's start command.`,
    );
  const { installCommand = `${CACHE} deno install${main ? ` --entrypoint ${main}` : ""}`, buildCommand } =
    input;
  const build = buildCommand ?? (/"build"\s*:\s*["{]/.test(config) ? `${CACHE} deno task build` : undefined);
  return {
    runtime: "deno",
    because: `Detected a Deno app: it has a ${file}.`,
    steps: [
      installTool("deno@2"),
      commandStep(installCommand, "install_failed"),
      ...(build === undefined ? [] : [commandStep(build, "compile_failed")]),
    ],
    command,
    path: [TOOLS_PATH],
  };
}
