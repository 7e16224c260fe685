import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { More } from "../../design/more.tsx";
import { Empty, Failure, Loading } from "../../design/state.tsx";
import { usePages } from "../../live/pages.ts";
import { useAccount, useAccountAddress, useMayEdit } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { NewEnvironment, NewProject } from "./create.tsx";
import { ProjectCard } from "./project-card.tsx";

/** The projects of an account, each with its environments and how they are. */
export function Home() {
  const { accountId } = useAccountAddress();
  const mayEdit = useMayEdit();
  const [creating, setCreating] = useState<"project" | { projectId: string }>();
  const pages = usePages({
    queryKey: ["projects", accountId],
    read: (cursor) => berth.projects.list({ accountId }, { limit: 20 }).page(cursor),
    // All pages would be read again.
    refetchOnWindowFocus: false,
  });
  const title = useAccount()?.displayName;
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const projects = pages.data;
  return (
    <>
      <title>{`${texts.home.title} – ${texts.name}`}</title>
      <div className="head">
        <h1>
          {texts.home.title} <small>{title}</small>
        </h1>
        {mayEdit && (
          <button type="button" className="main" onClick={() => setCreating("project")}>
            {texts.home.create}
          </button>
        )}
      </div>
      {projects.length === 0 && (
        <Empty title={texts.home.empty}>
          <p>{texts.home.emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth init</code>
          </p>
        </Empty>
      )}
      <ul className="cards">
        {projects.map((project) => (
          <ProjectCard
            key={project.id}
            project={project}
            onCreate={() => setCreating({ projectId: project.id })}
          />
        ))}
      </ul>
      <More pages={pages} />
      <p className="hint">
        <Link to="/accounts/$accountId/backups" params={{ accountId }}>
          {texts.home.deletedAddons}
        </Link>
      </p>
      {creating === "project" && <NewProject onClose={() => setCreating(undefined)} />}
      {creating !== undefined && creating !== "project" && (
        <NewEnvironment projectId={creating.projectId} onClose={() => setCreating(undefined)} />
      )}
    </>
  );
}
