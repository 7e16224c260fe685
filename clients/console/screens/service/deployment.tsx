import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useEffect } from "react";
import type { Notice } from "../../../typescript/src/index.ts";
import { Ago, Failure, Loading, Status } from "../../design/state.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { queries } from "../../live/queries.ts";
import { useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { By, Source } from "./deployments.tsx";
import { Output } from "./output.tsx";
import { stageOf } from "./stage.ts";

const SERVICE = "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service";

/** One deployment: what it is at, why it failed, and what its build wrote. */
export function DeploymentScreen() {
  const at = useServiceAddress();
  const version = Number((useParams({ strict: false }) as { version: string }).version);
  const state = useServiceState(at.service);
  const key = ["deployment", at.environmentId, at.service, version];
  const deployment = useQuery({ queryKey: key, queryFn: () => berth.deployments.get(at, version) });
  const news = JSON.stringify([state?.deployment, state?.release, state?.status]);
  useEffect(() => {
    if (news)
      void queries.invalidateQueries({ queryKey: ["deployment", at.environmentId, at.service, version] });
  }, [news, at.environmentId, at.service, version]);
  if (deployment.isPending || !state) return <Loading />;
  if (!deployment.data) return <Failure error={deployment.error} retry={() => void deployment.refetch()} />;
  const { status, step } = stageOf(deployment.data, state);
  const { createdAt, errors, warnings, buildId, builtVersion, createdBy } = deployment.data;
  return (
    <>
      <p>
        <Link to={SERVICE} params={at}>
          {texts.service.all}
        </Link>
      </p>
      <h2>v{version}</h2>
      <p>
        <Status status={status} /> {step && <span className="hint">{step}</span>}{" "}
        <Source deployment={deployment.data} /> <Ago time={createdAt} />{" "}
        {createdBy && (
          <>
            {texts.service.byWhom} <By deployment={deployment.data} />
          </>
        )}
      </p>
      <Notices title={texts.service.errors} notices={errors} />
      <Notices title={texts.service.warnings} notices={warnings} />
      {buildId ? (
        <Output
          key={version}
          id={`build ${at.environmentId} ${at.service} ${version}`}
          open={(options) => berth.deployments.followBuildLogs(at, version, options)}
          title={texts.service.buildLog(version)}
          name={`${at.service}-v${version}-build`}
          empty={texts.service.emptyLog}
        />
      ) : (
        <p className="hint">
          {builtVersion === undefined ? (
            texts.service.noLog
          ) : (
            <Link to={`${SERVICE}/deployments/$version`} params={{ ...at, version: String(builtVersion) }}>
              {texts.service.reused(builtVersion)}
            </Link>
          )}
        </p>
      )}
    </>
  );
}

function Notices({ title, notices }: { title: string; notices: Notice[] }) {
  if (notices.length === 0) return null;
  return (
    <section className="note">
      <h3>{title}</h3>
      <ul>
        {notices.map(({ code, message, stage, at }) => (
          <li key={code + at}>
            {message} <span className="hint">{texts.service.stage(stage)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
