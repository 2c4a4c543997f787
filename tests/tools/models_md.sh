#!/bin/bash
# models_md.sh POSENC FOLDER: what `posenc resolve` says about ten published configurations; FOLDER/NAME.json holds them.
set -euo pipefail
posenc=$1 folder=$2
cat <<TEXT
# Ten models

What \`posenc resolve config.json\` prints for published configurations. Written by \`make models\`, which reads them from
\`\$POSENC_TEST_DATA/hf_configs/configs\`; not edited by hand. Each request is a
command that runs as it stands; where a line says what it needs, that is to be added.
TEXT
for name in llama-3.1-8b deepseek-v3 phi-4-mini gemma-4-e2b llama-4-scout qwen2-vl-2b bloom-560m modernbert-base \
    t5-xxl-flux dinov3-large; do
    [ -f "$folder/$name.json" ] || { echo "models_md: $folder/$name.json is not there" >&2; exit 1; }
    printf '\n## %s\n\n```\n' "$name"
    "$posenc" resolve "$folder/$name.json" 2>&1
    printf '```\n'
done
