package module

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/types"
	"github.com/bide-dev/bide/internal/value"
)

// Definition is a module as a manifest describes it. Exactly one of Shell,
// HTTP, Agent and Workflow is set.
type Definition struct {
	Name     string
	Version  string // "" if not given
	Doc      string
	Params   []types.Param
	Result   *types.Type
	Shell    *Shell
	HTTP     *HTTP
	Agent    *Agent
	Workflow *Workflow
	Dir      string // the folder of the manifest, for paths in it
	Sum      string // names the content of the files that the module runs; "": it names none
	Pos      diag.Pos
}

// Format is how the result is read from a text.
type Format uint8

// The formats.
const (
	JSON Format = iota // the text is one JSON value of the result's type
	Text               // the text without its last line end; for numbers and booleans, what it spells
)

// String is the name in a manifest.
func (f Format) String() string {
	if f == Text {
		return "text"
	}
	return "json"
}

// Outcome is what the end of an attempt means.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota
	Retryable
	Fatal // another attempt would end alike, so none is made
)

// Shell describes a command. It gets its inputs on stdin, see
// [Definition.Stdin], and as environment variables, see [Definition.Env].
type Shell struct {
	Argv   []string // run as it is, or else
	Text   string   // run by sh; inputs are reached as "$INPUT_NAME", never pasted in
	Dir    string   // relative to the manifest; "" is the folder of the run
	Env    [][2]string
	Output Format
	Exit   StatusMap // exit statuses; by default 0 is success and any other retryable
}

// HTTP describes a request.
type HTTP struct {
	Method  string
	URL     string      // {name} stands for the input, escaped for its place
	Headers [][2]string // {name} in a value stands for the input as text
	Body    any         // JSON; {name} in its strings stands for inputs; nil: see HasBody
	HasBody bool        // if Body is nil: the body is an object of all inputs that URL and Headers do not use
	Output  Format
	Status  StatusMap // by default 2xx is success, 408, 425, 429 and 5xx retryable, all else fatal
}

// Agent describes a prompt for an agent.
type Agent struct {
	Prompt   string // {name} stands for the input as text
	Provider string // one of the configured agents; "" is the default one
	Output   Format
}

// Workflow describes a run of another workflow. Its parameters are the inputs.
type Workflow struct {
	File string // relative to the manifest
	// Output is the variable that is the result when the workflow has ended;
	// "": the result is a record, each field a variable of its name.
	Output string
}

// StatusMap says what a status, an exit status or that of an HTTP answer,
// means.
type StatusMap struct {
	Success, Retryable, Fatal []StatusRange
	other                     Outcome
}

// StatusRange is a range of statuses, both ends in it.
type StatusRange struct{ From, To int }

// Outcome gives the meaning of a status.
func (m StatusMap) Outcome(status int) Outcome {
	in := func(rs []StatusRange) bool {
		return slices.ContainsFunc(rs, func(r StatusRange) bool { return r.From <= status && status <= r.To })
	}
	switch {
	case in(m.Fatal):
		return Fatal
	case in(m.Retryable):
		return Retryable
	case in(m.Success):
		return Success
	case m.other == Retryable && (status == 126 || status == 127):
		return Fatal // the command is not there or cannot be run
	}
	return m.other
}

// Inputs gives the arguments as an object.
func (d *Definition) Inputs(args []any) map[string]any {
	m := make(map[string]any, len(args))
	for i, p := range d.Params {
		m[p.Name] = types.Encode(args[i])
	}
	return m
}

// Stdin is what a command reads: the inputs as one JSON object on one line.
func (d *Definition) Stdin(args []any) []byte {
	return []byte(value.JSON(d.Inputs(args)) + "\n")
}

// EnvName is the environment variable of a parameter: INPUT_ and its name in
// capital letters, with _ for -.
func EnvName(param string) string {
	return "INPUT_" + strings.ToUpper(strings.ReplaceAll(param, "-", "_"))
}

// Env gives the environment variables of a command, "NAME=value": those of
// the manifest, then one for each input, a String as it is, none as nothing,
// anything else as JSON.
func (d *Definition) Env(args []any) []string {
	var env []string
	if d.Shell != nil {
		for _, e := range d.Shell.Env {
			env = append(env, e[0]+"="+e[1])
		}
	}
	for i, p := range d.Params {
		env = append(env, EnvName(p.Name)+"="+asText(types.Encode(args[i])))
	}
	return env
}

// asText is an input inside a text: a String as it is, none as nothing,
// anything else as JSON.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return value.JSON(v)
}

// Format is how the result is read from what the module gives.
func (d *Definition) Format() Format {
	switch {
	case d.Shell != nil:
		return d.Shell.Output
	case d.HTTP != nil:
		return d.HTTP.Output
	case d.Agent != nil:
		return d.Agent.Output
	}
	return JSON
}

// Parse makes the result of what a command, an answer or an agent gave.
func (d *Definition) Parse(f Format, output []byte) (any, error) {
	if f == Text {
		text := strings.TrimSuffix(strings.TrimSuffix(string(output), "\n"), "\r")
		if d.Result.Kind != types.StringKind {
			text = strings.TrimSpace(text)
		}
		v, err := types.FromText(text, d.Result)
		if err != nil {
			return nil, fmt.Errorf("the output of %s is %w", d.Name, err)
		}
		return v, nil
	}
	v, err := value.Parse(output)
	if err != nil {
		return nil, fmt.Errorf("the output of %s is no JSON: %w; write \"output: text\" in the manifest if it is plain text", d.Name, err)
	}
	v, err = types.Decode(v, d.Result)
	if err != nil {
		return nil, fmt.Errorf("the output of %s is %w", d.Name, err)
	}
	return v, nil
}
