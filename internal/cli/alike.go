package cli

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/dataflow"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/pipeline/plan"
	"github.com/bide-dev/bide/internal/workflow"
	"github.com/spf13/cobra"
)

// alike is what other programs call flags that several commands of ours have.
type alike struct {
	flag   string // the flag of ours that a command must have; "": any command
	typ    string // and its type; "": any
	theirs string // what others write, with blanks between
	write  string // what is to be written here; CMD is the command
}

// newData is how a dead letter gets other data; KEY and VALUE stand for what changes.
const newData = "--data has all the data that an item has from now on: bide dlq show ITEM --json | jq '.data | .KEY = VALUE' | bide dlq retry --item ITEM --data -"

// inBackground is how a run outlives its terminal.
const inBackground = "write: nohup CMD … &, which outlives the terminal; bide logs -f, bide status and bide ui show the run, bide stop ends it"

// alikes has the first row for a flag and a command.
var alikes = []alike{
	{"retry", "", "-r --num-retries --retry-count --max-retry --max-attempt --count --reruns", "write: --retry N, or --attempts N with the first attempt counted"},
	{"retry", "", "--backoff-limit", "write: --retry N for N retries after the first attempt"},
	{"attempts", "", "-r --num-retries --retry-count --max-retry --max-attempt --count --backoff-limit", "write: --attempts N, which counts the first one too"},
	{"attempts", "", "--no-retry --no-retries --once", "write: --attempts 1"},
	{"fallback", "", "--ignore-errors --ignore-error --continue-on-error --allow-failure", "write: --fallback COMMAND, as in --fallback true, for what runs after the last failure; or bide exec -- COMMAND || true"},
	{"attempts", "", "--restart", "write: --attempts 5, or --attempts unlimited --deadline 1h, for a command that is run again until it succeeds"},
	{"initial-delay", "", "--retry-delay-seconds --reruns-delay --interval-seconds --min-delay --min-wait --wait-min --min-backoff --base-delay --sleep-seconds --restart-sec --retry-delay --retry-wait --retry-interval --retry-wait-seconds --default-retry-delay", "write: --initial-delay 1s"},
	{"initial-delay", "", "--wait-fixed", "write: --backoff fixed --initial-delay 1s"},
	{"initial-delay", "", "--wait-random --random-wait", "write: --backoff fixed --initial-delay 1s --jitter full"},
	{"backoff", "", "--wait-random-exponential", "write: --backoff exponential --jitter full"},
	{"backoff", "", "--wait-exponential --exp --exponential --exponential-backoff --retry-backoff", "write: --backoff exponential"},
	{"max-delay", "", "--cap --max-wait --wait-max --max-interval --max-backoff --retry-backoff-max --max-sleep", "write: --max-delay 30s"},
	{"base", "", "--delay-factor --exponential-base --backoff-base --growth", "write: --base 2"},
	{"stall-timeout", "", "--heartbeat-timeout --no-output-timeout --idle-timeout --silence-timeout", "write: --stall-timeout 5m, how long it may print nothing"},
	{"jitter", "", "--no-jitter", "write: --jitter none"},
	{"jitter", "", "--retry-jitter --random --random-jitter", "write: --jitter full"},
	{"deadline", "", "--retry-max-time --active-deadline-seconds --stop-after-delay --max-duration --schedule-to-close-timeout --give-up-after --execution-timeout --workflow-execution-timeout", deadlineForAll},
	{"timeout", "", "--timeout-minutes --timeout-seconds --time-limit --max-execution-time --max-runtime --start-to-close-timeout", "write: --timeout 5m, for each attempt"},
	{"timeout", "", "--kill-after --signal --termseq --timeout-signal", "a command that exceeds --timeout gets SIGTERM, and SIGKILL where that does not end it: leave it out"},
	{"retry-on", "", "--autoretry-for --retry-on-exception --retry-on-error --retry-errors --error-equals --retry-if-exception-type --retry-if-exception --retry-on-code --exit-codes --on-codes --codes", "write: --retry-on network, or another class, exit_code:N or pattern:RE"},
	{"retry-on", "", "--retry-connrefused", "write: --retry-on network"},
	{"retry-on", "", "--on-error --on --errors --error-class", "write: --retry-on network, or another class, exit_code:N or pattern:RE"},
	{"initial-delay", "", "--policy --retry-policy --strategy-file", "write: --attempts 3 --backoff exponential --initial-delay 1s; bide docs options has all options of a policy"},
	{"retry-on", "", "--retry-all-errors", "every error is retried where --retry-on does not choose: leave it out"},
	{"until", "", "--retry-if-result --while --retry-while --check --assert", "write: --until EXPRESSION on the result, as in --until 'contains(output, \"ready\")'"},
	{"delays", "", "--schedule --delay-list --backoff-schedule", "write: --backoff custom --delays 1s,5s,30s"},
	{"attempts", "", "--on-retry --on-retry-command --before-sleep --before --after --on-each-failure", "what a command does between attempts it does itself: $BIDE_ATTEMPT is the number of the attempt, $BIDE_LAST_ERROR the error of the one before"},
	{"fallback", "", "--reraise", "the exit status is that of the last attempt: leave it out"},
	{"abort-on", "", "--non-retryable-error-types --non-retryable-errors --no-retry-on --give-up-on --stop-on --except --no-retry-on-exit-code --fail-on --fail-fast-on --give-up-on-code", "write: --abort-on exit_code:N or pattern:RE"},

	{"arg-file", "", "--pipe --pipepart --block --recstart --recend --round-robin --tee --cat --fifo --spreadstdin", "commands read nothing here: bide docs coming-from"},
	{"arg-file", "", "--colsep -C --csv --header --trim", "an item is one word here; a workflow has items that are objects: bide docs coming-from"},
	{"arg-file", "", "--link --xapply --arg-sep --arg-file-sep", "there is one list of items: bide docs coming-from"},
	{"arg-file", "", "-n", "a command gets one item: leave it out; for N commands at once write: -j N"},
	{"arg-file", "", "-X -m -N -L -l -x -s --xargs --max-args --max-replace-args --max-lines --max-chars --exit", "a command gets one item: bide docs coming-from"},
	{"arg-file", "", "-S --sshlogin --sshloginfile --slf --trc --transfer --transferfile --return --cleanup --basefile --bf --hgrp --hostgroups --nonall --onall --filter-hosts", "many machines are another matter: bide docs cluster"},
	{"arg-file", "", "--results --tmpdir --compress --outputas --output-as --sqlmaster --sqlworker --sqlandworker --sql", "every output is kept: bide logs [RUN] --item ITEM"},
	{"arg-file", "", "--will-cite --citation --bibtex --shebang --embed --gnu --plain --record-env --session --profile -J --combine-exe --combineexec --minversion --fg --open-tty", "leave it out"},
	{"arg-file", "", "--latest-line --ll", "how far each is is shown on the terminal; --progress plain or none changes that"},
	{"arg-file", "", "--ctag --color-failed", "write: --tag, which puts the item before each line"},
	{"skip-permissions", "", "--dangerously-skip-permissions --yolo --full-auto --allow-all --bypass-permissions", "write: --skip-permissions"},
	{"skip-permissions", "", "--model --allowed-tools --allowedTools --max-turns --mcp-config --permission-mode --system-prompt --append-system-prompt", "options of an agent stand in its own command: bide exec -- claude -p --model NAME PROMPT; at a step of a file in args: [--model, NAME]"},
	{"arg-file", "", "--prompt --claude --agent", "write: bide batch 'PATTERN' --command \"claude: PROMPT\""},
	{"arg-file", "", "--files", "write: bide batch 'PATTERN' -- COMMAND for the files of a pattern; every output is kept: bide logs [RUN] --item ITEM"},
	{"arg-file", "", "--for-each --foreach --each --glob --pattern --include --match", "write: bide batch 'PATTERN' -- COMMAND, with the pattern in quotes"},
	{"arg-file", "", "--sort --sorted", "write: --keep-order, or -k, for the outputs in the order of the items"},
	{"arg-file", "", "--filter", "write: … | grep … | bide batch -- COMMAND"},
	{"arg-file", "", "-E --eof", "write: … | sed '/WORD/,$d' | bide batch -- COMMAND"},
	{"arg-file", "", "--seqreplace", "write {#} for the number of the item"},
	{"arg-file", "", "--bg --sem", "a limit of this machine bounds what runs at once, in all runs: bide docs limits"},
	{"fail-fast", "", "--halt-on-error --exit-on-error --stop-on-error --stop-on-first-failure --max-failures", "write: --fail-fast"},
	{"allow-failed-items", "", "--keep-going --continue-on-error --ignore-errors --no-fail-fast", "the other items run where one fails: leave it out; --allow-failed-items makes the exit status 0"},
	{"keep-order", "", "--ordered --in-order --sequential-output --preserve-order", "write: --keep-order, or -k"},
	{"arg-file", "", "--file --items --items-file --from-file --input-file --lines-from", "write: -a FILE for the lines of a file"},
	{"max-parallel", "", "--max-workers --numprocesses --forks --num-workers --max-concurrent -j --jobs --parallel --concurrency --workers --threads --max-procs --procs --parallelism --max-concurrency -P", "write: --max-parallel N"},
	{"path", "", "--cwd --workdir --working-directory --chdir --dir --directory", "write: --path DIR, or -p DIR"},
	{"limit", "stringSlice", "--rate --rate-limit --limit-rate --throttle --rps", "write: --limit NAME, of which bide limits set NAME rate=50/1m says how many begin in a time"},

	{"rule", "", "--env --set-env", "a command has the environment of bide: write NAME=VALUE before bide"},
	{"limit", "stringSlice", "--memsuspend --limit-memory", "a limit of this machine bounds what runs at once: bide docs limits"},

	{"data", "", "--set --with --item-data --edit --field --input --patch --replace --merge --jq --values --override -d", newData},

	{"progress", "", "--background --bg --daemon --daemonize --detach --detached --async --no-wait --nohup --fork -d -b", inBackground},
	{"read-only", "", "--background --bg --daemon --daemonize --detach --detached --nohup -d", "write: nohup CMD --no-open &"},
	{"progress", "", "--wait --sync --foreground --attach --fg -w", "CMD ends when the run has ended: leave it out"},
	{"attempts", "", "--background --bg --daemon --daemonize --detach --nohup -d", "write: nohup CMD [flags] -- COMMAND &"},
	{"json", "bool", "--format --output -o --output-format", "write: --json; other forms are made of it, as by jq"},
	{"limit", "int", "-n --lines --count --max --head --tail --last", "write: --limit N"},
	{"follow", "", "--watch -w --tail-follow", "write: --follow, or -f"},
	{"status", "", "--failed --only-failed --failed-only --state", "write: --status failed,completed_with_failures, or --status interrupted"},
	{"item", "", "--items --ids --id --only --index", "write: --item ITEM, which may be given several times"},
	{"item", "", "--job --task", "write: --item ITEM"},
	{"older-than", "", "--since --before --age --until --days --keep-days", "write: --older-than 2d"},
	{"seeds", "", "--iterations --count --trials --samples --repeat --simulations -r", "write: --seeds N"},
	{"model", "", "--probability --chaos --latency --duration --outage --down --failure-model --faults -p", "write a model, steps: {\"*\": {failures: {network: 0.1}, latency: 2s}}, and name it with --model FILE: bide docs simulate"},
	{"yes", "", "--assume-yes --no-confirm --non-interactive --auto-approve", "write: --yes, or -y"},
	{"quiet", "", "-s --silent --no-output", "write: --quiet, or -q"},
	{"color", "", "--no-color --no-colour --nocolor", "write: --color never"},
	{"progress", "", "--no-progress", "write: --progress none"},
	{"param", "", "-e --env --var --vars --extra-vars", "write: --param NAME=VALUE for a parameter of the file; steps have the environment of bide, so NAME=VALUE before bide sets a variable"},
	{"", "", "--run --run-id --id", "the run is an argument: CMD RUN"},
	{"", "", "--latest --last", "the newest run is meant where none is named: CMD"},
}

// alikeHint is what to write for a flag that other programs have; "" if nothing is known.
func alikeHint(cmd *cobra.Command, flag string) string {
	for _, row := range alikes {
		if f := cmd.Flags().Lookup(row.flag); row.flag != "" && (f == nil || row.typ != "" && f.Value.Type() != row.typ) {
			continue
		}
		if row.flag == "" && !strings.Contains(cmd.Use, "RUN") {
			continue
		}
		for their := range strings.FieldsSeq(row.theirs) {
			if their == flag {
				return strings.ReplaceAll(row.write, "CMD", cmd.CommandPath())
			}
		}
	}
	if text := formerly["bide exec "+flag]; (cmd.Name() == "batch" || cmd.Name() == "backoff") && !strings.Contains(text, "bide exec") && hasFlags(cmd, text) {
		return text
	}
	return ""
}

var flagName = pattern.Lazy(`--([a-z][a-z-]*)`)

// hasFlags reports whether a command has all flags that a text names.
func hasFlags(cmd *cobra.Command, text string) bool {
	return !slices.ContainsFunc(flagName().FindAllStringSubmatch(text, -1), func(m []string) bool { return cmd.Flags().Lookup(m[1]) == nil })
}

// insideHint is what to write for a flag that is the name of something in the file or in the
// item, as in --data.size; "" if it is none.
func insideHint(cmd *cobra.Command, name string) string {
	head, rest, dotted := strings.Cut(name, ".")
	switch {
	case dotted && cmd.Flags().Lookup("data") != nil:
		if head != "data" && head != "item" {
			rest = name
		}
		return strings.ReplaceAll(newData, "KEY", rest)
	case dotted && cmd.Flags().Lookup("set") != nil:
		return "write: --set " + name + "=VALUE"
	case cmd.Flags().Lookup("param") == nil || cmd.Flags().NArg() == 0:
		return ""
	}
	switch path := cmd.Flags().Arg(0); {
	case dataflow.IsPipeline(path):
		p, _ := dataflow.Load(path, "", os.ReadFile)
		if p != nil && p.Plan != nil && cmd.Flags().Lookup("input") != nil && slices.ContainsFunc(p.Plan.Inputs, func(in plan.Param) bool { return in.Name == name }) {
			return "it is an input of " + path + ": write: --input " + name + "=VALUE"
		}
	default:
		f, _ := workflow.Load(path, workflow.Options{Unfilled: true})
		if f != nil && slices.ContainsFunc(f.Params, func(p workflow.Param) bool { return p.Name == name }) {
			return "it is a parameter of " + path + ": write: --param " + name + "=VALUE"
		}
	}
	return ""
}

// hintOf is what to write in place of a word or a flag; "" if nothing is known about it.
func hintOf(cmd *cobra.Command, word string) string {
	known := formerly[cmd.CommandPath()+" "+word]
	if known == "" && strings.HasPrefix(word, "-") {
		return cmp.Or(alikeHint(cmd, word), insideHint(cmd, strings.TrimPrefix(word, "--")))
	}
	if _, err := strconv.Atoi(word); err == nil && cmd.CommandPath() == "bide dlq" {
		return "write: bide dlq show " + word + ", or bide dlq retry " + word
	}
	return cmp.Or(known, formerly[cmd.CommandPath()+" WORD"])
}
