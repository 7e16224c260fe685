import { command } from "../../command.ts";
import { COMMON, type Description, type Options } from "../../description.ts";
import { usage } from "../../failure.ts";
import { shellQuoted } from "../../terminal/format.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

const completion = command({
  name: "completion",
  summary: "Print completion for bash, zsh or fish",
  args: "SHELL",
  arity: [1, 1],
  about: ["Completes commands and options. It asks no installation, so it is never slow."],
  examples: [
    ["completion bash > ~/.local/share/bash-completion/completions/berth", "for bash"],
    ["completion zsh > ~/.zfunc/_berth", "for zsh, with ~/.zfunc in fpath"],
    ["completion fish > ~/.config/fish/completions/berth.fish", "for fish"],
  ],
  async run({ args: [shell] }, { io, loadCommands }) {
    if (!SHELLS.includes(shell as (typeof SHELLS)[number]))
      throw usage(`There is completion for ${SHELLS.join(", ")}, not for ${shell}.`, "berth completion bash");
    const all = await loadCommands();
    io.raw({ bash, zsh, fish }[shell as (typeof SHELLS)[number]](all));
  },
});

const allOptions = ({ options = {} }: Description): Options => ({ ...options, ...COMMON });
const optionsOf = (each: Description) =>
  Object.entries(allOptions(each)).flatMap(([name, { short }]) => [
    `--${name}`,
    ...(short ? [`-${short}`] : []),
  ]);

/** Words after `berth`, and the words after each of them. */
function tree(all: Description[]): Map<string, string[]> {
  const words = new Map<string, string[]>();
  for (const { name } of all) {
    const [word = "", second] = name.split(" ");
    const below = words.get(word) ?? [];
    if (second) below.push(second);
    words.set(word, below);
  }
  return words;
}

function bash(all: Description[]): string {
  const words = tree(all);
  const cases = all.map((each) => `    "${each.name}") options="${optionsOf(each).join(" ")}" ;;`);
  const below = [...words].filter(([, seconds]) => seconds.length > 0);
  const seconds = below.map(([word, list]) => `    ${word}) words="${list.join(" ")}" ;;`);
  return `# Completion of berth for bash: berth completion bash
_berth() {
  local current="\${COMP_WORDS[COMP_CWORD]}" name="\${COMP_WORDS[1]}" words="" options=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${[...words.keys(), "help"].join(" ")} --help --version" -- "$current"))
    return
  fi
  case "$name" in
${seconds.join("\n")}
  esac
  if [ "$COMP_CWORD" -eq 2 ] && [ -n "$words" ] && [ "\${current#-}" = "$current" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case " $words " in *" \${COMP_WORDS[2]} "*) name="$name \${COMP_WORDS[2]}" ;; esac
  case "$name" in
${cases.join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _berth berth
`;
}

const zshText = (text: string) => text.replaceAll(/[[\]:\\]/g, "\\$&");

function zsh(all: Description[]): string {
  const words = tree(all);
  const summary = (word: string) => all.find(({ name }) => name === word)?.summary ?? word;
  const first = [...words.keys()].map((word) => shellQuoted(`${word}:${zshText(summary(word))}`));
  const cases = all.map((each) => {
    const options = Object.entries(allOptions(each)).map(([name, option]) =>
      shellQuoted(
        `--${name}${option.kind === "flag" ? "" : "="}[${zshText(option.about)}]${option.kind === "flag" ? "" : ": :"}`,
      ),
    );
    return `    ${shellQuoted(each.name)}) _arguments ${options.join(" ")} '*:file:_files' ;;`;
  });
  const below = [...words].filter(([, seconds]) => seconds.length > 0);
  const seconds = below.map(([word, list]) => `    ${word}) words=(${list.join(" ")}) ;;`);
  return `#compdef berth
# Completion of berth for zsh: berth completion zsh
_berth() {
  local name="\${words[2]}"
  if (( CURRENT == 2 )); then
    local -a commands=(${first.join(" ")})
    _describe command commands
    return
  fi
  local second="\${words[3]}"
  local -a typed=("\${words[@]}")
  local -a words=()
  case "$name" in
${seconds.join("\n")}
  esac
  if (( CURRENT == 3 )) && (( \${#words} )) && [[ "$second" != -* ]]; then
    compadd -- "\${words[@]}"
    return
  fi
  (( \${words[(Ie)$second]} )) && name="$name $second"
  words=("\${typed[@]}")
  case "$name" in
${cases.join("\n")}
  esac
}
if [ "$funcstack[1]" = "_berth" ]; then _berth "$@"; else compdef _berth berth; fi
`;
}

function fish(all: Description[]): string {
  const words = tree(all);
  const lines = ["# Completion of berth for fish: berth completion fish", "complete -c berth -f"];
  const summary = (word: string) => all.find(({ name }) => name === word)?.summary ?? word;
  for (const [word, seconds] of words) {
    lines.push(`complete -c berth -n __fish_use_subcommand -a ${word} -d ${shellQuoted(summary(word))}`);
    if (seconds.length > 0) {
      const none = `__fish_seen_subcommand_from ${word}; and not __fish_seen_subcommand_from ${seconds.join(" ")}`;
      for (const second of seconds)
        lines.push(
          `complete -c berth -n ${shellQuoted(none)} -a ${second} -d ${shellQuoted(summary(`${word} ${second}`))}`,
        );
    }
  }
  for (const each of all) {
    const when = each.name
      .split(" ")
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join("; and ");
    for (const [name, option] of Object.entries(allOptions(each))) {
      const short = option.short ? ` -s ${option.short}` : "";
      const value = option.kind === "flag" ? "" : " -r";
      lines.push(
        `complete -c berth -n ${shellQuoted(when)} -l ${name}${short}${value} -d ${shellQuoted(option.about)}`,
      );
    }
  }
  lines.push("complete -c berth -n '__fish_seen_subcommand_from up' -F");
  return `${lines.join("\n")}\n`;
}

export const commands = [completion];
