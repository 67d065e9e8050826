package cli

import "github.com/spf13/cobra"

// formerly says what to write instead of what people bring along from Prodigy and other
// tools: by the command line up to the word or flag that bide does not have.
var formerly = map[string]string{
	"bide analytics":    "a run's cost and times are in: bide show [RUN]; what to change in its retries: bide tune [RUN]",
	"bide changelog":    "bide keeps no changelog",
	"bide checkpoints":  "every run is recorded as it goes: bide runs, bide show [RUN], bide resume [RUN]",
	"bide config":       "settings are flags, keys of the file, and variables of the environment: bide docs environment",
	"bide cook":         "write: bide run FILE",
	"bide goal-seek":    "write a step goal_seek: {goal: …, claude: …, validate: …}: bide docs keys",
	"bide migrate-yaml": "write: bide migrate FILE",
	"bide progress":     "write: bide show [RUN], bide events [RUN] -f, or bide ui",
	"bide resume-job":   "write: bide resume [RUN]",
	"bide sessions":     "a session is a run here: bide runs, bide show [RUN], bide clean",
	"bide template":     "a template is a file, which extends: or template: names: bide docs keys",

	"bide dlq analyze": "write: bide dlq stats [RUN]",
	"bide dlq clear":   "write: bide dlq purge RUN",
	"bide dlq edit":    "write: bide dlq retry --item ITEM --data FILE",
	"bide dlq inspect": "write: bide dlq show [RUN] ITEM",
	"bide dlq view":    "write: bide dlq list RUN, or bide dlq show [RUN] ITEM",

	"bide events clean":  "a run's events go with it: bide clean",
	"bide events export": "write: bide events [RUN] --json > FILE",
	"bide events follow": "write: bide events [RUN] -f",
	"bide events list":   "write: bide events [RUN]",
	"bide events ls":     "write: bide events [RUN]",
	"bide events search": "write: bide events [RUN] | grep TEXT",
	"bide events show":   "write: bide events [RUN]",
	"bide events stats":  "write: bide show [RUN]",

	"bide events --job-id":   "the run is an argument: bide events RUN",
	"bide logs --latest":     "the last run is meant where none is named: bide logs",
	"bide logs --summary":    "write: bide show [RUN]",
	"bide logs --tail":       "write: bide logs -f",
	"bide dlq list --job-id": "the run is an argument: bide dlq list RUN",

	// Words that others have for these commands.
	"bide history": "write: bide runs",
	"bide jobs":    "write: bide status, or bide runs",
	"bide kill":    "write: bide stop RUN",
	"bide list":    "write: bide runs, bide dlq list, or bide worktree ls",
	"bide ls":      "write: bide runs",
	"bide new":     "write: bide init",
	"bide pause":   "write: bide control RUN pause",
	"bide ps":      "write: bide status",
	"bide restart": "write: bide rerun, bide resume, or bide dlq retry",
	"bide retry":   "write: bide exec -- COMMAND for a command, bide dlq retry for items that failed, bide rerun --step NAME for a step, bide resume for a run",
	"bide serve":   "write: bide ui",
	"bide server":  "write: bide ui",
	"bide start":   "write: bide run FILE",
	"bide tail":    "write: bide logs -f",
	"bide test":    "write: bide check FILE, or bide run --dry-run FILE",
	"bide watch":   "write: bide events -f, or bide ui",

	"bide backoff --delay":     "write: --initial-delay 1s, or --delays 1s,5s with --backoff custom",
	"bide batch --delay":       "write: --initial-delay 1s for the wait before a second attempt",
	"bide exec --delay":        "write: --initial-delay 1s, or --delays 1s,5s with --backoff custom",
	"bide exec -r":             "write: --retry N, or --attempts N with the first attempt counted",
	"bide rerun --item":        "write: bide dlq retry --item ITEM for an item that failed",
	"bide exec --strategy":     "write: --backoff KIND",
	"bide exec -n":             "write: --attempts N",
	"bide replay --attempts":   "write: --set STEP.retry.attempts=N",
	"bide run --jobs":          "write: --max-parallel N",
	"bide run --parallel":      "write: --max-parallel N",
	"bide run --verbose":       "every step is shown already; bide logs has the outputs, bide events everything",
	"bide run -j":              "write: --max-parallel N",
	"bide run -v":              "every step is shown already; bide logs has the outputs, bide events everything",
	"bide simulate --failure":  "write a model, steps: {\"*\": {failures: {network: 0.1}}}, and name it with --model FILE: bide docs simulate",
	"bide simulate --failures": "write a model, steps: {\"*\": {failures: {network: 0.1}}}, and name it with --model FILE: bide docs simulate",

	// Of parallel and xargs.
	"bide batch -P":              "write: -j N",
	"bide batch --order":         "write: --keep-order, or -k",
	"bide batch --bar":           "how far it is is shown on the terminal; --progress plain or none changes that",
	"bide batch --eta":           "how long it takes is shown on the terminal; --progress plain or none changes that",
	"bide batch --colsep":        "an item is one word here; a workflow has items that are objects: bide docs coming-from",
	"bide batch --halt":          "write: --fail-fast (running commands may end)",
	"bide batch --link":          "there is one list of items: bide docs coming-from",
	"bide batch --pipe":          "commands read nothing here: bide docs coming-from",
	"bide batch --results":       "every output is kept: bide logs [RUN] --item ITEM",
	"bide batch --resume":        "write: bide resume [RUN]",
	"bide batch --resume-failed": "write: bide dlq retry RUN",
	"bide batch --sshlogin":      "many machines are another matter: bide docs cluster",

	"bide resume --from-checkpoint": "write: bide rerun RUN --from STEP",
	"bide run --resume":             "write: bide resume RUN",
	"bide run --worktree":           "write: --isolation worktree",

	"bide worktree cleanup":        "write: bide worktree clean",
	"bide worktree clean-orphaned": "write: bide worktree clean",
}

// hintOf is what is written in the place of a word or a flag; "" where it means
// nothing that is known.
func hintOf(cmd *cobra.Command, word string) string {
	return formerly[cmd.CommandPath()+" "+word]
}
