package module

// Key is a key of a manifest: the reader knows keys by this table, and the
// language server offers and explains them out of it.
type Key struct {
	Name    string
	Example string // of its value; "" where there is no telling one
	Doc     string
	Words   []string // that its value may be, if those are all
}

var (
	outputKey = Key{"output", "json", "how the answer is read: json or text; without it text for a String, json for anything else", []string{"json", "text"}}
	methods   = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
)

// keysOf has the keys of each kind of map, in the order in which they are
// usually written.
var keysOf = map[string][]Key{
	"": {
		{"modules", "", "what pipelines beside this file can call", nil},
	},
	"module": {
		{"name", "Fetch", "what pipelines call it; a capital letter first is the custom", nil},
		{"version", `"2"`, "changes with what it does, so that results kept under another version are not used", nil},
		{"description", "gets one page", "what it does, for people", nil},
		{"params", "{id: Int}", "its inputs and their types", nil},
		{"result", "String", "the type of what it gives", nil},
		{"shell", "[fetch, --json]", "a program with its arguments, or a text for sh; inputs are a JSON object on standard input and INPUT_NAME in the environment", nil},
		{"http", "{url: \"https://example.com/{id}\"}", "a request; {name} stands for an input, escaped for its place", nil},
		{"agent", "{prompt: \"Summarise {text}\"}", "a question to an agent; {name} stands for an input", nil},
		{"workflow", "{file: build.yml, output: version}", "the steps of a workflow, run inside this run; inputs are its parameters", nil},
		outputKey,
		{"exit", "{retryable: [75], fatal: [64]}", "what exit statuses mean; without it 0 is success, 126 and 127 are not retried, and all others are", nil},
		{"env", "{LANG: C}", "variables of a shell module, besides those of the run", nil},
		{"dir", "tools", "where a shell module runs, relative to this file", nil},
	},
	"http": {
		{"method", "POST", "GET, or POST where there is a body", methods},
		{"url", "\"https://example.com/{id}\"", "where to; the host is fixed, {name} stands for an input behind it", nil},
		{"headers", "{Accept: application/json}", "headers of the request; {name} stands for an input", nil},
		{"body", "{id: \"{id}\"}", "what is sent: a text as it is, anything else as JSON; an input in JSON is escaped for its place, and one that is all of the body is sent as JSON", nil},
		{"status", "{success: [2xx, 404]}", "what statuses mean; without it 2xx is success, 408, 425, 429 and 5xx are retried, and the rest is final", nil},
		outputKey,
	},
	"agent": {
		{"prompt", "\"Summarise {text}\"", "what it is asked; {name} stands for an input", nil},
		{"provider", "claude", "which agent is asked, of those that are configured", nil},
		outputKey,
	},
	"workflow": {
		{"file", "build.yml", "the workflow, relative to this file", nil},
		{"output", "version", "the variable that is the result; without it the result is a record of variables", nil},
	},
	"status": {
		{"success", "[0]", "statuses that are a success: a number, a list, or a range as in \"500-503\" or 5xx", nil},
		{"retryable", "[75]", "statuses after which the call may be retried; every other failure is then final", nil},
		{"fatal", "[64]", "statuses after which it is not retried", nil},
	},
}

// Keys gives the keys of a map that is under some keys of a manifest, "" for
// a place in a list; nil where any key may stand.
func Keys(path []string) []Key {
	switch {
	case len(path) == 0:
		return keysOf[""]
	case path[0] != "modules" || len(path) < 2:
		return nil
	case len(path) == 2:
		return keysOf["module"]
	case len(path) == 3 && path[2] == "exit", len(path) == 4 && path[2] == "http" && path[3] == "status":
		return keysOf["status"]
	case len(path) == 3 && path[2] != "module":
		return keysOf[path[2]]
	}
	return nil
}

// names are the names of the keys of a kind of map.
func names(kind string) (list []string) {
	for _, k := range keysOf[kind] {
		list = append(list, k.Name)
	}
	return list
}
