import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef } from "react";
import type { Environment, Project } from "../../../typescript/src/index.ts";
import { useInView } from "../../design/in-view.ts";
import { More } from "../../design/more.tsx";
import { sentenceOf } from "../../design/state.tsx";
import { usePages } from "../../live/pages.ts";
import { useAccountAddress, useMayEdit } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

export function ProjectCard({ project, onCreate }: { project: Project; onCreate: () => void }) {
  const { accountId } = useAccountAddress();
  const mayEdit = useMayEdit();
  const card = useRef<HTMLLIElement>(null);
  const isNear = useInView(card);
  const environments = usePages({
    enabled: isNear,
    queryKey: ["environments", project.id, "pages"],
    read: (cursor) =>
      berth.environments.list({ accountId, projectId: project.id }, { limit: 20 }).page(cursor),
    refetchOnWindowFocus: false,
  });
  return (
    <li className="card" ref={card}>
      <h2>{project.name}</h2>
      {environments.isPending && <p className="hint">{texts.loading}</p>}
      {!environments.data && environments.error && <p className="error">{sentenceOf(environments.error)}</p>}
      {environments.data?.length === 0 && <p className="hint">{texts.home.noEnvironments}</p>}
      <ul aria-label={texts.home.environments(project.name)}>
        {environments.data?.map((environment) => (
          <EnvironmentLine key={environment.id} environment={environment} isNear={isNear} />
        ))}
      </ul>
      <More pages={environments} text={texts.home.moreEnvironments} />
      {mayEdit && (
        <button type="button" className="quiet" onClick={onCreate}>
          {texts.home.newEnvironment}
        </button>
      )}
    </li>
  );
}

/** What needs somebody's attention. */
const UNWELL = new Set(["failed", "crashed", "degraded"]);

function EnvironmentLine({ environment, isNear }: { environment: Environment; isNear: boolean }) {
  const { accountId } = useAccountAddress();
  const { id: environmentId, projectId, name } = environment;
  const params = { accountId, projectId, environmentId };
  const services = useQuery({
    enabled: isNear,
    queryKey: ["services", environmentId],
    queryFn: () => berth.services.list(params, { limit: 100 }).page(),
  });
  return (
    <li>
      <Link to="/accounts/$accountId/projects/$projectId/environments/$environmentId" params={params}>
        {name}
      </Link>{" "}
      {services.data && (
        <Health statuses={services.data.data.map(({ status }) => status)} more={services.data.page.hasMore} />
      )}
      {services.error && <span className="hint">{sentenceOf(services.error)}</span>}
    </li>
  );
}

/** How the services of an environment are: the worst first, in a shape and words. */
function Health({ statuses, more }: { statuses: string[]; more: boolean }) {
  if (statuses.length === 0) return <span className="hint">{texts.home.noServices}</span>;
  const unwell = statuses.filter((status) => UNWELL.has(status)).length;
  const isBusy = statuses.includes("deploying");
  const [symbol, word, tone] =
    unwell > 0 ? texts.statuses.degraded : isBusy ? texts.statuses.deploying : texts.statuses.running;
  const says = unwell > 0 ? texts.home.unwell(unwell) : isBusy ? word : texts.home.allWell;
  return (
    <span className={`status ${tone}`}>
      <span aria-hidden="true">{symbol}</span> {says}
      <span className="hint">, {texts.home.services(statuses.length, more)}</span>
    </span>
  );
}
