import {
  BatchVariablesRequestSchema,
  BatchVariablesResultSchema,
  ConnectionSchema,
  DanglingVariableSchema,
  GetVariableImpactRequestSchema,
  ImpactedServiceSchema,
  ResolvedVariableSchema,
  VariableEntrySchema,
  VariableImpactSchema,
  VariablesService,
} from "../../../proto/gen/berth/variables/v1/variables_pb.ts";
import { type Api, ToolRefusal } from "../api.ts";
import { argumentOf, argumentsOf, listOf, objectOf, partOf } from "../shape.ts";
import { ANYWHERE, argumentsSchema, FIRST_ANSWER, oneStep, type Tool, twoStep } from "./tool.ts";

type Variable = { name: string; sensitive: boolean; updatedAt: string };
type Impact = { services: { id: string; name: string; environmentId: string }[]; total: number };
type Entry = { name: string };

const { listVariables, getResolvedVariables, getVariableImpact, batchVariables } = VariablesService.method;

const getVariables = oneStep<{ path: string }>({
  name: "get_variables",
  title: "Variables",
  description:
    "Of a service: what it resolves, and from which scope. Of a project or environment: what is set there. Sensitive values are never shown.",
  does: "reads",
  calls: [getResolvedVariables],
  input: argumentsSchema({ path: ANYWHERE }, ["path"]),
  output: objectOf({
    variables: listOf(
      partOf(ResolvedVariableSchema, "name", "sensitive", "value", "source", "connection", "aliasTarget"),
    ),
    dangling: listOf(partOf(DanglingVariableSchema, "name", "reason")),
  }),
  async run({ path }, { call, all, at }) {
    const address = await at.any(path);
    if (address.service !== undefined) {
      const found = await call<{ data: object[]; dangling: object[] }>(getResolvedVariables, address);
      return { data: { variables: found.data, dangling: found.dangling } };
    }
    const variables = await all<Variable & { scope: string }>(listVariables, address);
    return { data: { variables: variables.map((each) => ({ ...each, source: each.scope })) } };
  },
});

const getImpact = oneStep<{ path: string; variableName: string }>({
  name: "get_impact",
  title: "Impact of a variable",
  description: "The services that a variable of a project or environment reaches.",
  does: "reads",
  calls: [getVariableImpact],
  input: argumentsSchema(
    { path: ANYWHERE, variableName: argumentOf(GetVariableImpactRequestSchema, "variableName") },
    ["path", "variableName"],
  ),
  output: partOf(
    VariableImpactSchema,
    ["services", partOf(ImpactedServiceSchema, "name", "environmentId")],
    "total",
  ),
  async run({ path, variableName }, { call, at }) {
    const address = await at.any(path);
    if (address.service !== undefined)
      throw new ToolRefusal("invalid_path", "A variable of a service reaches that service only.");
    return { data: await call<Impact>(getVariableImpact, { ...address, variableName }) };
  },
});

type SetInput = { path: string; set?: Entry[]; unset?: string[] };

const ENTRY = argumentsOf(
  VariableEntrySchema,
  [
    "name",
    "value",
    "sensitive",
    ["connection", argumentsOf(ConnectionSchema, ["service", "key"])],
    "aliasTarget",
  ],
  ["name"],
);

/** Names whose impact is looked up for a preview. */
const MAX_IMPACTS = 20;

const setVariables = twoStep<SetInput>({
  name: "set_variables",
  title: "Set and unset variables",
  description: "Sets and unsets variables, all or none. Running services pick them up by themselves.",
  does: "changes",
  idempotent: true,
  calls: [batchVariables],
  input: argumentsSchema(
    {
      path: ANYWHERE,
      set: { type: "array", items: ENTRY },
      unset: argumentOf(BatchVariablesRequestSchema, "unset"),
    },
    ["path"],
  ),
  output: objectOf({ ...FIRST_ANSWER, result: partOf(BatchVariablesResultSchema, "applied", "removed") }),
  async preview({ path, set = [], unset = [] }, api) {
    if (set.length + unset.length === 0) throw new ToolRefusal("empty_batch", "Give set, unset, or both.");
    const address = await api.at.any(path);
    const there = new Map(
      (await api.all<Variable>(listVariables, address)).map((variable) => [variable.name, variable]),
    );
    const names = set.map(({ name }) => name);
    const has = (name: string) => there.has(name);
    const touched = [...names, ...unset].filter(has);
    const shown = {
      adds: names.filter((name) => !has(name)),
      replaces: names.filter(has),
      removes: unset.filter(has),
      reaches: address.service !== undefined ? [address.service] : await reached(api, address, touched),
      // A list that leaves out services must not look like all of them.
      ...(address.service === undefined &&
        touched.length > MAX_IMPACTS && { reachNotLookedUp: touched.slice(MAX_IMPACTS) }),
    };
    const times = touched.map((name) => [`variable ${name}`, there.get(name)!.updatedAt]);
    const state = { ...shown, ...Object.fromEntries(times) };
    const question = `Set ${names.length} and remove ${shown.removes.length} variables of ${path}?`;
    return { question, shown, state };
  },
  async perform({ path, set = [], unset = [] }, api, once) {
    const members = { ...(await api.at.any(path)), set, unset, confirmImpact: true };
    const result = await api.call<object>(batchVariables, members, once);
    return { data: { result }, next: "get_variables of a service shows what it resolves" };
  },
});

/** Returns the services that variables of a project or an environment reach, by environment and name. */
async function reached(api: Api, address: object, names: string[]): Promise<string[]> {
  const impacts = await Promise.all(
    names
      .slice(0, MAX_IMPACTS)
      .map((variableName) => api.call<Impact>(getVariableImpact, { ...address, variableName })),
  );
  const services = impacts.flatMap(({ services }) => services);
  return [...new Set(services.map(({ name, environmentId }) => `${environmentId}/${name}`))].sort();
}

export const variableTools: Tool[] = [getVariables, getImpact];
export const variableWrites: Tool[] = [setVariables];
