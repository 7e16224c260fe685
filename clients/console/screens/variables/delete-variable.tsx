import { useMutation } from "@tanstack/react-query";
import type { ResolvedVariable, ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Form } from "../../design/form.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { Impact } from "./impact.tsx";
import { scopeAt } from "./scopes.ts";

type DeleteProps = { at: ServiceAddress; variable: ResolvedVariable; onClose: () => void };

export function DeleteVariable({ at, variable: { name, source }, onClose }: DeleteProps) {
  const body = source === "service" ? {} : { confirmImpact: true };
  const remove = useMutation({
    mutationFn: () => berth.variables.delete(scopeAt(at, source), name, body),
    onSuccess: onClose,
  });
  return (
    <Dialog title={texts.variables.deleteTitle(name)} onClose={onClose}>
      <Form
        onSubmit={() => remove.mutate()}
        error={remove.error}
        isBusy={remove.isPending}
        submit={texts.delete}
        dangerous
      >
        <p>{texts.variables.deleteFrom(texts.scopes[source])}</p>
        <Impact at={at} scope={source} name={name} />
      </Form>
    </Dialog>
  );
}
