import { setTimeout as delay } from "node:timers/promises";
import type { Work } from "./shared.ts";

const GONE = { wanted: [404] };

/** Creates and deletes whole projects; what is deleted must be gone at once. */
export const projects: Work = async (client, { account }, random, round) => {
  const made = await client.effect(
    { action: "project.create" },
    `project-${round}`,
    `${account}/projects`,
    { name: `p${round}-${client.name}` },
    random,
  );
  if (!made) return;
  const P = `${account}/projects/${made.id}`;
  const environment = await client.send("POST", `${P}/environments`, { name: "only" });
  if (environment.status === 201) {
    const E = `${P}/environments/${(environment.body as { id: string }).id}`;
    await client.write("POST", `${E}/variables`, { name: "A", value: "1" });
    if (random.next() < 0.3) await client.send("POST", `${E}/services`, { name: "db", type: "postgres" });
  }
  for (;;) {
    const { status } = await client.send("DELETE", P, { confirmImpact: true }, GONE);
    if (status === 204 || status === 404) break;
    await delay(500);
  }
  for (const path of [P, `${P}/variables`, `${P}/environments`]) {
    const { status } = await client.send("GET", path, undefined, GONE);
    if (status === 200) client.wrong(`GET ${path} answered 200 after the deletion was acknowledged`);
  }
  const { status } = await client.write("POST", `${P}/variables`, { name: "LATE", value: "1" }, GONE);
  if (status === 200) client.wrong(`a variable was written to ${P} after its deletion was acknowledged`);
};

/** Reads what people read meanwhile. */
export const reads: Work = async (client, { account, project, environment, webs }, random) => {
  const S = `${environment}/services/${random.of(webs)}`;
  const paths = [
    "/me",
    `${account}/audit-events`,
    `${project}/variables`,
    `${S}/resolved-variables`,
    `${S}/deployments`,
    `${S}/logs`,
    S,
    `${environment}/services`,
    `${project}/variables/R0/impact`,
  ];
  await client.send("GET", random.of(paths));
};
