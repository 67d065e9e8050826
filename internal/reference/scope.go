package reference

import "strings"

// Scope says of each variable that a workflow has without setting it what it
// holds, by the place where it is there, and of each filter what it does. Tests
// compare both with the sources.
var Scope = []struct{ Group, Name, Doc string }{
	{everywhere, "workflow.name", "the workflow's name"},
	{everywhere, "workflow.id", "the id of the run"},
	{everywhere, "workflow.status, workflow.message, workflow.class", "in `finally`: how the run ended (succeeded, failed, completed_with_failures), what went wrong, and its class"},
	{everywhere, "workflow.iteration, ITERATION", "with `max_iterations`: the round, from 1"},
	{everywhere, "PROJECT_ROOT", "the directory that the run was started in"},
	{everywhere, "WORKTREE", "the directory that the step works in"},
	{everywhere, "env.NAME, env:NAME", "an environment variable; `${NAME}` alone is one of the `env` block"},
	{everywhere, "uuid", "another one each time"},
	{everywhere, "date:FORMAT", "the time, as in `${date:%Y-%m-%d}`"},
	{everywhere, "file:PATH", "what is in a file"},
	{everywhere, "cmd:COMMAND", "what a command prints"},
	{everywhere, "json:PATH:FILE", "a member of a JSON file, as in `${json:a.b:data.json}`"},
	{everywhere, "ARG, 1", "with `--args` or `--map`: the argument of this round; of a file such as `042-title.md`, its number"},
	{everywhere, "ARG_1", "`ARG_1`, `ARG_2`, …: the words behind the file of `bide run`"},
	{everywhere, "INDEX, TOTAL", "with `--args` or `--map`: the round, and how many there are"},
	{everywhere, "FILE, FILE_PATH", "with `--map`: the path of the file"},
	{everywhere, "FILE_NAME, FILE_STEM", "with `--map`: the name of the file, with and without what follows the last dot"},
	{after, "last, shell, claude, http, write_file, pipeline, ID", "the step before, whatever it was; the last of its kind; the one with that `id`. What the next rows say of one holds for all of them"},
	{after, "last.output, shell.output, claude.output, ID.output", "what it wrote to standard output, without the last line end"},
	{after, "last.stderr, shell.stderr", "what it wrote to standard error"},
	{after, "last.exit_code, shell.exit_code", "its exit status"},
	{after, "last.success, shell.success", "whether it succeeded"},
	{after, "last.duration, shell.duration", "in seconds"},
	{after, "last.output_file, shell.output_file", "a file with the output, where it is large"},
	{after, "http.status, http.body, http.headers", "of a request"},
	{after, "last.cost_usd, last.tokens, last.session", "of an agent that tells them"},
	{after, "CAPTURED_OUTPUT", "with `capture_output: true`: the output"},
	{after, "NAME.output, NAME.stderr, NAME.exit_code, NAME.success, NAME.duration", "with `capture: NAME`, beside `${NAME}` itself"},
	{after, "step.files_added, step.files_modified, step.files_deleted, step.files_changed", "in a repository: what the last step changed, in all of its attempts; of the whole run `workflow.files_added` and so on"},
	{after, "step.commits, step.commit_count, step.insertions, step.deletions", "in a repository: the commits of the last step, and their lines; of the whole run `workflow.commits` and so on"},
	{after, "git.branch, git.commit", "where the working tree stands when the step begins"},
	{after, "git.staged_files, git.unstaged_files, git.untracked_files, git.modified_files, git.deleted_files, git.changed_files", "its state when the step begins"},
	{repair, "error", "how the step failed"},
	{repair, "error.message, error.class, error.exit_code, error.step, error.attempts", "what went wrong, its class, the exit status, the step's label, how often it ran"},
	{repair, "error.output, error.stderr, error.timestamp", "what the step wrote, and when it failed"},
	{repair, "test", "of a `test` step: the same as `shell`"},
	{repair, "test.attempt, test.exit_code, test.output", "in the repair of a `test` step: the round, from 1, and how the test ended"},
	{repair, "TEST_ATTEMPT", "in the repair: the round"},
	{repair, "validation", "after a check with a score: its result, every member of it included"},
	{repair, "validation.score, validation.completion, validation.completion_percentage", "the score, in percent"},
	{repair, "validation.status, validation.missing, validation.missing_count, validation.implemented, validation.gaps", "what the check said"},
	{repair, "validation.attempt, validation.attempt_number", "the round of a check with `on_incomplete`"},
	{repair, "goal.text, goal.attempt, goal.score", "inside a `goal_seek`"},
	{repair, "goal_seek.score, goal_seek.attempts", "after a `goal_seek`"},
	{loop, "item", "in a `foreach` the value; in a map the item, whose members are `${item.path}` and so on"},
	{loop, "index, total", "in a `foreach`: the value's number, from 0, and how many there are"},
	{loop, "foreach.item, foreach.index, foreach.total", "the same"},
	{"`same_error.on_hold`", "hold, hold.text, hold.signature, hold.message, hold.items", "what the map is held for: a sentence that says it as `bide show` does, the name of the group of failures, the last of them, and how many items failed so"},
	{loop, "foreach.results, foreach.succeeded, foreach.failed, foreach.skipped", "after a `foreach`: the list of its results, and counts"},
	{loop, "item.item", "an item that is a plain line"},
	{loop, "item_json", "in a map: the item as JSON"},
	{loop, "item_id", "in a map: the item's id"},
	{loop, "item_index, item_total", "in a map: the item's number, from 0, and how many there are"},
	{loop, "attempt", "in a map: the number of the attempt at the item, from 1"},
	{reduce, "map.results, map.results_array", "a list, one element an item, in their order: `item_id`, `index`, `item`, `status`, `success`, `output`, `steps`, `attempts`, `duration_ms`; of a failed one `error` and `class`; of one in a worktree `commits`, `files_modified`, `branch_name`, `worktree_path`"},
	{reduce, "map.results_json", "the same as a text of JSON"},
	{reduce, "map.results_file", "a file with the same, one JSON object a line, and `$BIDE_RESULTS_FILE` names it; it is there however large the results are"},
	{reduce, "map.outputs", "the outputs of the items that succeeded"},
	{reduce, "map.total", "how many items there were"},
	{reduce, "map.tolerated", "how many ended although a step of them failed; one that its repair did not mend is not among the successful, unless the file writes `fail_workflow: false`"},
	{reduce, "map.successful, map.succeeded, map.success_count", "how many ended well: in this run, or unchanged since an earlier one"},
	{reduce, "map.failed, map.failure_count", "how many failed"},
	{reduce, "map.unchanged", "how many of them are unchanged since an earlier run, and did not run"},
	{reduce, "map.skipped", "how many were left out"},
	{reduce, "map.success_rate", "in percent"},
	{reduce, "map.failure_rate", "from 0 to 1"},
	{reduce, "map.total_duration_secs, map.average_duration_secs", "what the items took, together and each, in seconds"},
	{merge, "merge.worktree, merge.source_branch, merge.target_branch, merge.session_id", "the directory of the run's work, its branch, the branch that it is merged into, the id of the run"},
	{merge, "merge.commits, merge.commit_ids, merge.commit_count", "what is to be merged"},
	{merge, "merge.modified_files, merge.file_list, merge.file_count", "the files in it"},
	{merge, "merge.commit, merge.conflicts", "in a conflict: the commit, and the files that differ on both sides; where there is no conflict, as at the end of the run: an empty text and an empty list"},
	{filter, "json", "JSON text of the value"},
	{filter, "lines, newline", "a list one element a line; a text as the list of its lines"},
	{filter, "comma, csv, join", "a list joined with a comma, or as in `${x|join:; }`"},
	{filter, "glob, pattern", "those file names of a list that match, as in `${x|glob:*.go}`"},
	{filter, "basename", "file names without their directories"},
	{filter, "default", "stands in for what is missing, null or empty: `${x|default:none}`, also `${x:-none}`"},
	{filter, "raw", "in a shell text, an address or a body: paste the value as it is; data becomes code"},
	{filter, "option", "in a shell text: the value may be an option of the command"},
	{filter, "sh", "quoted as one shell word, for a shell that is not ours"},
	{filter, "count, length, len", "how many elements, keys or characters"},
	{filter, "sum, avg, average, mean, median, min, max, stddev, variance", "of a list of numbers; variance is that of the whole population"},
	{filter, "unique, flatten, sort, reverse, first, last, keys, values", "of a list or an object"},
	{filter, "lower, upper, trim", "of a text"},
}

const (
	everywhere = "Everywhere"
	after      = "After a step"
	repair     = "After a failure or a check"
	loop       = "In a loop or a map"
	reduce     = "After a map: in reduce and merge"
	merge      = "In merge"
	filter     = "Filters, behind a bar as in ${NAME|lower}"
)

// ScopePage is the page of the variables and filters of a workflow.
func ScopePage() string {
	var b strings.Builder
	b.WriteString(Made + "# Variables of a workflow\n\nWhat `${…}` can name without that the file sets it. What a file sets (`env`, `secrets`, `parameters`, `capture`, `$BIDE_OUTPUT`) is there under its own name.\n")
	group := ""
	for _, v := range Scope {
		if v.Group != group {
			group = v.Group
			b.WriteString("\n## " + group + "\n\n")
			name := "variable"
			if group == filter {
				name = "filter"
			}
			Head(&b, name, "what")
		}
		names := strings.Split(v.Name, ", ")
		for i := range names {
			names[i] = Code(names[i])
		}
		Row(&b, strings.Join(names, ", "), v.Doc)
	}
	return b.String()
}
