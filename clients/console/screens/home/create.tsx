import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Dialog } from "../../design/dialog.tsx";
import { Form, NameInput } from "../../design/form.tsx";
import { queries } from "../../live/queries.ts";
import { useAccountAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

export function NewProject({ onClose }: { onClose: () => void }) {
  const { accountId } = useAccountAddress();
  const create = useMutation({
    mutationFn: (name: string) => berth.projects.create({ accountId }, { name }),
    onSuccess: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["projects", accountId] });
    },
  });
  return (
    <Dialog title={texts.home.create} onClose={onClose}>
      <Form
        onSubmit={(fields) => create.mutate(String(fields.get("name")))}
        error={create.error}
        isBusy={create.isPending}
        submit={texts.create}
      >
        <NameInput />
      </Form>
    </Dialog>
  );
}

export function NewEnvironment({ projectId, onClose }: { projectId: string; onClose: () => void }) {
  const { accountId } = useAccountAddress();
  const navigate = useNavigate();
  const create = useMutation({
    mutationFn: (name: string) => berth.environments.create({ accountId, projectId }, { name }),
    onSuccess: ({ id: environmentId }) => {
      void queries.invalidateQueries({ queryKey: ["environments", projectId] });
      return navigate({
        to: "/accounts/$accountId/projects/$projectId/environments/$environmentId",
        params: { accountId, projectId, environmentId },
      });
    },
  });
  return (
    <Dialog title={texts.home.newEnvironment} onClose={onClose}>
      <Form
        onSubmit={(fields) => create.mutate(String(fields.get("name")))}
        error={create.error}
        isBusy={create.isPending}
        submit={texts.create}
      >
        <NameInput />
      </Form>
    </Dialog>
  );
}
