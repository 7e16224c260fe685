import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Empty, Failure, Loading } from "../../design/state.tsx";
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
  const pages = useInfiniteQuery({
    queryKey: ["projects", accountId],
    queryFn: ({ pageParam }) =>
      berth.projects.list({ accountId }, { limit: 20 }).page(pageParam || undefined),
    // All pages would be read again.
    refetchOnWindowFocus: false,
    initialPageParam: "",
    getNextPageParam: ({ page }) => (page.hasMore ? page.nextCursor : undefined),
  });
  const title = useAccount()?.displayName;
  if (pages.isPending) return <Loading />;
  if (!pages.data) return <Failure isScreen error={pages.error} retry={() => void pages.refetch()} />;
  const projects = pages.data.pages.flatMap(({ data }) => data);
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
      {pages.isRefetchError && <Failure error={pages.error} retry={() => void pages.refetch()} />}
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
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          {texts.more}
        </button>
      )}
      {creating === "project" && <NewProject onClose={() => setCreating(undefined)} />}
      {creating !== undefined && creating !== "project" && (
        <NewEnvironment projectId={creating.projectId} onClose={() => setCreating(undefined)} />
      )}
    </>
  );
}
