package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/pattern"
)

// elsewhere is what other programs have for keys of ours.
type elsewhere struct {
	in    []*table // the places; none: wherever no key of the place is meant
	keys  string   // their keys, spelled as plainKey does; one with = stands for a whole number alone
	write string   // what to write instead, with the given value in it: see [filledIn]
}

const (
	firstToo     = ", which counts the first run too"
	inTurn       = "steps run in their order, each when the one before it has succeeded"
	tellAtTheEnd = "steps under finally: tell somebody how the run ended, by a command or http:"
	skipItems    = "map.skip_unchanged leaves out the items of a map that are unchanged since an earlier run"
	retryPolicy  = "write retry: with attempts, which counts all runs and so is limit + 1, and initial_delay, as 5s for intervalSec: 5"
	rateLimits   = "write limits: [NAME], of which bide limits set NAME rate=50/1m says how many begin in a time"
	someErrors   = "[network, {exit_code: 75}, {pattern: 'try again'}]"
	otherErrors  = "[{exit_code: 2}, {pattern: 'not found'}]"
)

// elsewheres has the first row for a key and a place in which it is found.
var elsewheres = func() []elsewhere {
	policy, step, phase, file := []*table{retryTable, ruleTable, backoffTable}, []*table{stepTable}, []*table{mapTable}, []*table{fileTable}
	work, failed, breaker := []*table{stepTable, mapTable}, []*table{errorPolicyTable}, []*table{breakerTable}
	agent, each, request := []*table{agentTable}, []*table{foreachTable}, []*table{httpTable}
	return []elsewhere{
		{policy, "retries maxretries numretries retrylimit limit backofflimit", "write attempts: <n+1|4>" + firstToo},
		{policy, "max=", "write attempts: <n|3> for the number of all runs, or max_delay: <s|30s> for the longest delay"},
		{policy, "stop stopafterattempt startlimitburst", "write attempts: <n|5>"},
		{policy, "stopafterdelay stopafter giveupafter maxelapsed maxelapsedtime maxduration totaltimeout totaltime maxtime scheduletoclosetimeout activedeadlineseconds", "write deadline: <s|5m>, for all attempts and the delays"},
		{policy, "waitfixed restartsec", "write backoff: fixed, initial_delay: <s|2s>"},
		{policy, "waitrandom", "write backoff: fixed, initial_delay: <s|2s>, jitter: full"},
		{policy, "waitexponential", "write backoff: exponential, initial_delay: <s|1s>, max_delay: 30s"},
		{policy, "waitrandomexponential", "write backoff: exponential, initial_delay: <s|1s>, max_delay: 30s, jitter: full"},
		{policy, "starttoclosetimeout timelimit softtimelimit", "write timeout: <s|30s> at the step, beside retry:"},
		{policy, "heartbeattimeout", "write stall_timeout: <s|30s> at the step, beside retry:"},
		{policy, "retryifresult while retrywhile", "write until: EXPRESSION, with the opposite condition"},
		{policy, "initial initialinterval intervalseconds retrydelay retryinterval retrywait retrywaitseconds defaultretrydelay sleep duration", "write initial_delay: <s|5s>"},
		{policy, "cap maximuminterval maxinterval maxwait maxbackoff retrybackoffmax", "write max_delay: <s|30s>"},
		{policy, "backoffrate backofffactor backoffcoefficient backoffmultiplier exponentialbase factor", "write base: <n|2>"},
		{policy, "retrybackoff expo", "write backoff: exponential"},
		{policy, "retryjitter", "write jitter: true"},
		{policy, "nonretryableerrortypes nonretryableerrors nonretryable giveup giveupon dontautoretryfor retryifnotexceptiontype", "write abort_on: " + otherErrors + ": bide docs errors"},
		{policy, "errorequals autoretryfor retryifexceptiontype retryifexception retryexceptions retryonexception retryif if when retryableerrors conditions", "write retry_on: " + someErrors + ": bide docs errors"},
		{policy, "exitcode exitcodes onexitcodes retryonexit retryonexitcode retryonexitcodes retryexitcodes", "write retry_on: {exit_code: [<n|75>]}"},
		{policy, "statuscodes statuses httpcodes httpstatuses retryonstatus retryonstatuscodes", "write retry_on: [server_error, rate_limit]: bide docs errors"},
		{policy, "strategy policy kind", `did you mean "backoff"?`},
		{policy, "reraise", "leave it out: a step whose attempts are used up has failed"},
		{policy, "beforesleep beforesleeplog before after onretry beforeretry", "leave it out: every attempt is reported and recorded; a command reads its number in $BIDE_ATTEMPT"},
		{policy, "breaker", `did you mean "circuit_breaker"?`},

		{step, "retries maxretries retrylimit numretries backofflimit", "write retry: {attempts: <n+1|4>}" + firstToo},
		{step, "restart restartpolicy", "write retry: {attempts: 5, backoff: fixed}: a step runs again when it has failed"},
		{step, "restartsec", "write retry: {initial_delay: <s|5s>, backoff: fixed}"},
		{step, "startlimitburst", "write retry: {attempts: <n|5>}"},
		{step, "initialinterval intervalseconds retrydelay retryinterval retrywait defaultretrydelay", "write retry: {initial_delay: <s|5s>}"},
		{step, "retrybackoff", "write retry: {backoff: exponential}"},
		{step, "retrybackoffmax maximuminterval", "write retry: {max_delay: <s|30s>}"},
		{step, "retryjitter", "write retry: {jitter: true}"},
		{step, "backoffrate backoffcoefficient", "write retry: {base: <n|2>}"},
		{step, "autoretryfor errorequals", "write retry: {retry_on: " + someErrors + "}: bide docs errors"},
		{step, "nonretryableerrortypes nonretryableerrors", "write retry: {abort_on: " + otherErrors + "}: bide docs errors"},
		{step, "ackslate", "leave it out: every step that has ended is recorded, and bide resume runs the others"},
		{step, "activedeadlineseconds timelimit softtimelimit timeoutstartsec runtimemaxsec timeoutseconds starttoclosetimeout", "write timeout: <s|30s>"},
		{step, "scheduletoclosetimeout", "write retry: {deadline: <s|5m>}, for all attempts and the delays"},
		{step, "heartbeattimeout nooutputtimeout", `did you mean "stall_timeout"?`},
		{step, "catch except onfail onerror", `did you mean "on_failure"?`},
		{step, "always finally", "what follows any end of the run stands under finally: at the top of the file"},
		{step, "else", "write another step with the opposite condition in when:"},
		{step, "unless skipif", "write when: with the opposite condition"},
		{step, "onlyif", `did you mean "when"?`},
		{step, "register save saveas storein", `did you mean "capture"?`},
		{[]*table{captureTable}, "name variable var as to into id", `did you mean "output"?`},
		{step, "environment", `did you mean "env"?`},
		{step, "dir workdir chdir", `did you mean "working_dir"?`},
		{step, "circuitbreaker breaker", "write retry: {circuit_breaker: {failure_threshold: <n|5>}}"},
		{step, "concurrency", "write parallel: <n|4> beside foreach; for a step limits: [NAME], of which bide limits set NAME slots=<n|4> says how many run at once"},
		{step, "steps commands tasks", `did you mean "do"? it stands beside foreach`},
		{step, "as itemname loopvar index", "leave it out: the value is ${item} in the steps of a foreach, and ${index} its number"},
		{step, "failfast", "leave it out: steps end with the first that fails"},
		{step, "fallback", "write retry: {on_failure: {fallback: {command: <t|COMMAND>}}}"},
		{step, "until while", "write retry: {until: EXPRESSION}, which repeats the step until that holds"},
		{step, "delay", "write shell: sleep <n|5> as a step before it; before a second attempt, retry: {initial_delay: <s|5s>}"},
		{step, "user sudo become", "write shell: sudo -u USER COMMAND; bide runs steps as whoever runs it"},
		{step, "image container", "write shell: docker run --rm <t|IMAGE> COMMAND"},
		{step, "interpreter", "write shell: <t|python3> FILE"},
		{step, "stdin", "write shell: COMMAND < FILE"},
		{step, "log logfile stdout artifacts", `did you mean "output_file"?`},
		{step, "async background detach nowait", "leave it out: a step has ended when its command has"},
		{step, "besteffort allowfail softfail", `did you mean "continue_on_error"?`},
		{step, "enabled disabled skip", "write when: false for a step that is not to run"},
		{step, "sensitive nolog", "write secrets: {NAME: '${env:NAME}'} at the top of the file: their values are masked"},
		{step, "interval", "write retry: {initial_delay: <s|5s>, backoff: fixed}"},
		{step, "failedwhen failif assert", "write retry: {attempts: 1, until: EXPRESSION}: where that does not hold, the step has failed"},
		{step, "successcodes successexitcodes okcodes expectedexitcodes allowedexitcodes", "a command has succeeded if its status is 0: write shell: COMMAND || test $? = 7"},
		{step, "changedwhen", "leave it out: bide does not ask what a step has changed"},
		{step, "mutex lock", "write limits: [NAME], of which bide limits set NAME slots=1 says that one runs at a time"},
		{step, "resourceclass resources cpu memory", "steps run on this machine; write limits: [NAME], of which bide limits set NAME slots=4 says how many run at once"},
		{step, "repeat", "write foreach: seq <n|3>, with do: and the steps"},
		{step, "cache", skipItems},
		{step, "compensate compensation rollback undo", "write on_failure: with what undoes this step, or finally: at the top of the file"},
		{step, "activity", "leave it out: shell: has the command, name: what it is called"},
		{step, "title label", `did you mean "name"?`},
		{step, "fail", "write shell: exit 1"},
		{step, "include import", "write imports: [{path: <t|other.yml>}] at the top of the file, and workflow: NAME as the step"},
		{step, "parallel", "steps run one after another; calls of a pipeline (.cst) start when their inputs are ready: bide docs pipelines"},
		{step, "matrix", "write a map over the values, with ${item} in its steps"},

		{phase, "retries maxretries backofflimit", "write retry: {attempts: <n+1|4>}" + firstToo},
		{phase, "attempts maxattempts tries maxtries", "write retry: {attempts: <n|4>}"},
		{phase, "backoff", "write retry: {backoff: <t|exponential>}"},
		{phase, "deadline totaltimeout maxtime", "write timeout: <s|1h> at the top of the file"},
		{phase, "batchsize chunk chunks chunksize batch groupby", "an item is one value: let input: give lists, each of which is one item"},
		{phase, "ordered keeporder order inorder preserveorder", "leave it out: map.results has the items in the order of input"},
		{phase, "shuffle random", "write input: {command: … | shuf}, of which each line is an item"},
		{phase, "id itemid idfield keyfield key", "leave it out: an item is named by its own field id; label: ${item.<t|name>} is what lists call it"},
		{phase, "format inputformat filetype", "write input_type: <t|csv>"},
		{phase, "skip start", `did you mean "offset"?`},
		{phase, "output outputfile", "leave it out: in reduce ${map.results_file} names a file with the results of all items"},
		{phase, "timeoutminutes", "write agent_timeout: <m|5m>"},
		{phase, "timeoutseconds", "write agent_timeout: <s|30s>"},
		{phase, "maxconcurrency maxworkers numworkers maxprocs poolsize jobs agents", `did you mean "max_parallel"?`},
		{phase, "failfast haltonerror halt exitonerror", "write continue_on_failure: false, and the map ends with the first item that fails"},
		{phase, "continueonerror onerror keepgoing ignoreerrors", "leave it out: the other items run where one fails, which becomes a dead letter; on_item_failure: skip keeps none"},
		{phase, "onfailure", "write on_failure: at a step of agent_template; what becomes of an item that has failed says on_item_failure"},
		{phase, "toleratedfailurepercentage maxfailpercentage maxfailurerate", "write failure_threshold: 0.05 for 5 %"},
		{phase, "limit take first", "write max_items: <n|100> for how many there are, max_parallel: <n|4> for how many run at once"},
		{phase, "as itemname loopvar", "the item is ${item} in the steps: leave it out"},
		{phase, "orderby", `did you mean "sort_by"?`},
		{phase, "where select exclude include", "write filter: with a condition, as in filter: size > 10"},
		{phase, "unique dedupe dedup", `did you mean "distinct"?`},
		{phase, "glob", "write input: {command: ls <t|*.go>}, of which each line is an item"},
		{phase, "from itemspath withitems loop foreach", `did you mean "input"?`},
		{phase, "joblog results resume", "leave it out: every item is recorded; bide show, bide logs and bide resume read that"},
		{phase, "delay", "write start_delay: <s|1s> for the time between two starts, retry: {initial_delay: <s|1s>} before a second attempt"},

		{failed, "retries maxretries", "write retry: {attempts: <n+1|4>}" + firstToo},
		{failed, "onerror onfailure dlq deadletter action", "write on_item_failure: with dlq, retry, skip or stop"},
		{failed, "failfast stoponerror halt", "write continue_on_failure: false, and the map ends with the first item that fails"},
		{failed, "threshold maxfailurerate failurerate", "write failure_threshold: 0.2 for 20 %, or max_failures: <n|5>"},

		{breaker, "threshold failures maxfailures errors consecutivefailures failmax", "write failure_threshold: <n|5>"},
		{breaker, "resettimeout recoverytimeout cooldown openfor opentimeout waitduration sleepwindow", "write timeout: <s|30s>"},
		{breaker, "errorrate errorpercentage errorthresholdpercentage failureratethreshold", "write failure_rate: 0.5 for 50 %"},

		{agent, "model", "write args: [--model, <t|NAME>] at the step, beside claude:"},
		{agent, "args maxturns temperature allowedtools mcp", "write args: with options of the program at the step, beside claude:"},
		{agent, "timeout retry retries cwd workingdir prompt", "write it at the step, beside claude:"},
		{agent, "concurrency maxparallel", "write limits: [NAME], of which bide limits set NAME slots=<n|4> says how many are asked at once"},
		{agent, "ratelimit rate throttle", rateLimits},
		{agent, "fallback", "write another agent, NAME: {first_of: [claude, <t|codex>]}, and NAME: in place of claude: at the step"},
		{agent, "apikey token", "leave it out: the program has the environment of bide, and its own login"},
		{agent, "stream", "write output: stream-json"},

		{[]*table{inputTable}, "glob pattern files dir directory", "write input: {command: ls <t|*.txt>}, of which each line is an item"},
		{[]*table{inputTable}, "lines", "write input: {file: <t|items.txt>, format: lines}"},
		{[]*table{inputTable}, "range count", "write input: {command: seq 1 10}, of which each line is an item"},
		{each, "command cmd run shell", "write input: {command: <t|COMMAND>}, of which each line is an item"},
		{each, "glob pattern files", "write input: {command: ls <t|*.txt>}, of which each line is an item"},
		{each, "in values over", `did you mean "items"?`},

		{request, "data payload form", `did you mean "body"? json: takes values`},
		{request, "status statuscode expectstatus", `did you mean "expect"?`},
		{request, "retries maxretries", "write retry: {attempts: <n+1|4>} at the step, beside http:"},
		{request, "timeout retry", "write it at the step, beside http:"},
		{request, "auth token bearer", "write headers: {Authorization: 'Bearer ${TOKEN}'}"},
		{request, "params query", "write them into url:, behind a ?"},
		{request, "contenttype", "write headers: {Content-Type: <t|application/json>}"},

		{file, "items foreach foreachitem each loop withitems forall", "items are of a map: write map: {input: <t|items.txt>, agent_template: [the steps of each item]}"},
		{file, "prompt agent", "write commands: [{claude: <t|PROMPT>}]: the name of the agent is the key of its step"},
		{file, "taskqueue", "leave it out: bide run --on temporal runs a file on many machines (bide docs cluster)"},
		{file, "workflowexecutiontimeout workflowruntimeout", "write timeout: <s|1h>"},
		{file, "tasks targets activities stages", `did you mean "commands"?`},
		{file, "retries maxretries backofflimit", "write retry_defaults: {attempts: <n+1|4>}" + firstToo},
		{file, "restart restartpolicy", "write retry_defaults: {attempts: 5, backoff: fixed}: a step runs again when it has failed"},
		{file, "activedeadlineseconds timeoutseconds", "write timeout: <s|1h>"},
		{file, "always after cleanup post teardown onexit onfailure onerror", `did you mean "finally"? its steps follow every end of the run`},
		{file, "failfast", "leave it out: steps end with the first that fails; of a map say continue_on_failure: false"},
		{file, "environment", `did you mean "env"?`},
		{file, "vars", `did you mean "variables"?`},
		{file, "inputs", `did you mean "parameters"?`},
		{file, "include includes", "write imports: [{path: <t|other.yml>}]"},
		{file, "permissions", "leave it out: steps may do what whoever runs bide may do"},
		{file, "matrix", "write a map over the values, with ${item} in its steps"},
		{file, "workingdirectory workdir", "write bide run -p DIR, or working_dir: at a step"},

		{work, "ratelimit rate throttle", rateLimits},
		{file, "ratelimit rate throttle", "write limits: [NAME] at the steps, of which bide limits set NAME rate=50/1m says how many begin in a time"},
		{nil, "timeoutminutes", "write timeout: <m|5m>"},
		{nil, "timeoutsec", "write timeout: <s|30s>"},
		{nil, "notify notification notifications oncomplete oncompletion", tellAtTheEnd},
		{nil, "skipunchanged skipifunchanged incremental memoize", skipItems},
		{nil, "onconflict", "an agent resolves a conflict in a step under merge:, when: ${merge.conflicts} (bide docs agents)"},
		{nil, "needs depends dependson after", inTurn},
		{nil, "sleep wait", "write shell: sleep <n|5>"},
		{nil, "python", "write shell: python3 FILE"},
		{nil, "node", "write shell: node FILE"},
		{nil, "jobs", "bide migrate --job NAME writes a job as a workflow; or write its steps under commands:, each with shell: in the place of run:"},
		{nil, "on", "there are no triggers: cron, a hook or a CI system starts bide run"},
		{nil, "uses", "actions of GitHub do not run here: write what it does as shell:"},
		{nil, "runson executor", "steps run on this machine"},
		{nil, "strategy", "write a map over the values, with ${item} in its steps"},
		{nil, "retrypolicy retrystrategy", retryPolicy},
		{nil, "continueon", "write continue_on_error: true"},
		{nil, "precondition preconditions", "write when: with a condition"},
		{nil, "commitmessage messagetemplate", "write commit_config: {message_template: …} beside auto_commit"},
		{nil, "params", "declare them under parameters:; --param NAME=VALUE gives them"},
		{nil, "handleron", "what follows any end stands under finally:"},
		{nil, "repeatpolicy", "bide exec --until repeats a command, goal_seek a step until its score is reached"},
		{nil, "schedule cron", "there is no schedule: cron or a timer starts bide run"},
	}
}()

// plainKey is a key without what its spelling adds: timeout-minutes, timeout_minutes and
// timeoutMinutes are one.
func plainKey(key string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
}

// writtenFor says what to write instead of a key of another program, with its value; "" where
// nothing is known. ours reports whether a key of the place is meant by it.
func writtenFor(place *table, key string, value *node, ours bool) string {
	if len(key) > maxKey {
		return ""
	}
	if place == stepTable && key == "output" && (value.text == "text" || value.text == "stream-json") {
		return "write agents: {claude: {output: " + value.text + "}} at the top of the file: it is a key of an agent"
	}
	plain, whole := plainKey(key), value != nil && value.kind == intNode
	for _, row := range elsewheres {
		if row.in == nil && ours || row.in != nil && !slices.Contains(row.in, place) {
			continue
		}
		if keys := strings.Fields(row.keys); slices.Contains(keys, plain) || whole && slices.Contains(keys, plain+"=") {
			return filledIn(row.write, value)
		}
	}
	return ""
}

var (
	blank  = pattern.Lazy(`<(n\+1|n|s|m|t)\|([^>]+)>`)
	digits = pattern.Lazy(`\d{1,9}`)
)

// filledIn is a text with the value that was given in it: <n|3> is a whole number, <n+1|4>
// one more, <s|30s> a time of which a bare number is in seconds, <m|5m> in minutes, <t|x> a
// text. What follows | stands there if the value is none.
func filledIn(text string, value *node) string {
	return blank().ReplaceAllStringFunc(text, func(m string) string {
		parts := blank().FindStringSubmatch(m)
		given, number := "", ""
		if value != nil && value.scalar() {
			given = strings.TrimSpace(value.text)
			number = digits().FindString(given)
		}
		whole := number != "" && number == given
		switch kind := parts[1]; {
		case kind == "t" && given != "" && len(given) <= 40 && !strings.ContainsAny(given, "\n:#{}[]"):
			return given
		case kind == "n" && number != "":
			return number
		case kind == "n+1" && number != "":
			n, _ := strconv.Atoi(number) // at most nine digits
			return strconv.Itoa(n + 1)
		case (kind == "s" || kind == "m") && whole:
			return number + kind
		case kind == "s" || kind == "m":
			if _, err := duration.Parse(given); err == nil {
				return given
			}
		}
		return parts[2]
	})
}
