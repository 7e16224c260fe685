import { create } from "@bufbuild/protobuf";
import { ReleaseVariablesSchema } from "../../../proto/gen/berth/variables/v1/internal_pb.ts";
import {
  type ResolveVariables,
  VariablesUnavailable,
} from "../../../services/deployer/variables/variables-client.ts";
import type { Process } from "./process.ts";
import type { World } from "./world.ts";

/** What becomes of a variable when somebody changes it: the simplest first. */
const CHANGES = ["next", "same", "former", "dangles", "none"] as const;

/** The variable V of each service: a number, or it dangles, or there is none. */
export class Variables {
  readonly #states = new Map<string, string>();
  readonly #world: World;
  #last = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Changes the variable of a service, or does not. */
  change(serviceId: string): void {
    const change = this.#world.choices.of(CHANGES);
    const state = { next: String(this.#last + 1), former: "0", dangles: "dangles", none: "none" };
    if (change === "next") this.#last++;
    if (change !== "same") this.#states.set(serviceId, state[change]);
    this.#world.note(`the variable of ${serviceId} is ${this.#of(serviceId)}`);
  }

  /** Returns what V should be in a release with this configuration. */
  expected(serviceId: string, config: { env?: Record<string, string> }): string | undefined {
    const state = this.#of(serviceId);
    // Nothing stands in for a variable that dangles.
    return state === "none" ? config.env?.V : state === "dangles" ? undefined : state;
  }

  /** Returns the names of a service's variables that dangle. */
  dangling(serviceId: string): string[] {
    return this.#of(serviceId) === "dangles" ? ["V"] : [];
  }

  resolve(process: Process): ResolveVariables {
    return (serviceId) =>
      this.#world.operations.run(
        process,
        `resolve ${serviceId}`,
        () => {
          const value = this.#of(serviceId);
          const data = Number.isNaN(Number(value)) ? [] : [{ name: "V", value }];
          const dangling = this.dangling(serviceId).map((name) => ({ name, reason: "service_missing" }));
          return create(ReleaseVariablesSchema, { data, dangling, fingerprint: data[0]?.value ?? "" });
        },
        () => new VariablesUnavailable(),
      );
  }

  #of(serviceId: string): string {
    return this.#states.get(serviceId) ?? "0";
  }
}
