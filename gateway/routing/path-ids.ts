/** What paths name by ids that people take for names: how the ids begin, and what to say when one does not. */
export const ID_OF = {
  accountId: {
    prefix: "acc_",
    hint: "The path needs the account's id, which begins with acc_, not its handle. GET /accounts lists both.",
  },
  projectId: {
    prefix: "prj_",
    hint: "The path needs the project's id, which begins with prj_, not its name. The list of projects has both.",
  },
  environmentId: {
    prefix: "env_",
    hint: "The path needs the environment's id, which begins with env_, not its name. The list of environments has both.",
  },
} as const;

type Named = keyof typeof ID_OF;

/** Whether a text can be an id of this kind. The text alone decides, so the answer says nothing about what exists. */
export function isIdOf(kind: Named, text: string | undefined): boolean {
  return text?.startsWith(ID_OF[kind].prefix) === true;
}

/** Returns why a path cannot lead anywhere: a sentence about the first part that is a name in place of an id. */
export function misnamedIn(params: Record<string, string>): string | undefined {
  for (const kind of ["projectId", "environmentId"] as const) {
    const text = params[kind];
    if (text === undefined || isIdOf(kind, text)) continue;
    return `There is no such ${kind === "projectId" ? "project" : "environment"}. ${ID_OF[kind].hint}`;
  }
  return undefined;
}
