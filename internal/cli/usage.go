package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// spoken gives a command and its subcommands messages of their own for wrong arguments and
// unknown commands. The usage line says how many arguments a command takes, unless the command
// has a check of its own.
func spoken(c *cobra.Command) {
	if check := c.Args; c.HasSubCommands() {
		c.Args = unknownCommand
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	} else {
		c.Args = func(cmd *cobra.Command, args []string) error {
			var refused error
			if check != nil {
				refused = check(cmd, args)
			}
			if check == nil || refused != nil && !errors.As(refused, new(usageError)) {
				if err := wrongArguments(cmd, args); err != nil {
					return err
				}
			}
			return cmp.Or(refused, emptyArgument(cmd, args))
		}
	}
	for _, sub := range c.Commands() {
		spoken(sub)
	}
}

// unknownCommand rejects a word that is no command.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	choice := "see " + cmd.CommandPath() + " --help"
	if len(names) < 10 {
		choice = "write one of " + strings.Join(names, ", ")
	}
	hint := cmp.Or(hintOf(cmd, args[0]), fileHint(cmd, args[0]), diag.DidYouMean(args[0], names), programHint(cmd, args), choice)
	return usagef("there is no command %q; %s", strings.TrimSpace(cmd.CommandPath()+" "+args[0]), hint)
}

// unknownTopic rejects help about a word that is no command; cobra gives the help of the command
// before it.
func unknownTopic(root *cobra.Command, args []string) error {
	asked := slices.IndexFunc(args, func(word string) bool { return word == "--help" || word == "-h" })
	var words []string
	switch {
	case len(args) > 0 && args[0] == "help":
		words = args[1:]
	case asked > 0:
		words = args[:asked]
	default:
		return nil
	}
	if flag := slices.IndexFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") }); flag >= 0 {
		words = words[:flag]
	}
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil || !cmd.HasSubCommands() {
		return nil
	}
	return unknownCommand(cmd, rest)
}

// fileHint is what to write for a workflow or a pipeline in the place of a command of bide; "" if
// the word is none.
func fileHint(cmd *cobra.Command, word string) string {
	if cmd.HasParent() || !slices.Contains(fileEndings, filepath.Ext(word)) {
		return ""
	}
	return "write: bide run " + diag.ShellWord(word)
}

// programHint is what to write for a program in the place of a command of bide; "" if the first
// word is none.
func programHint(cmd *cobra.Command, words []string) string {
	if cmd.HasParent() {
		return ""
	}
	if head, _, isText := strings.Cut(words[0], " "); isText && isProgram(head) && len(words) == 1 {
		return "write: bide exec " + diag.ShellWord("shell: "+words[0])
	}
	if !isProgram(words[0]) {
		return ""
	}
	return "write bide exec before it: bide exec -- " + diag.ShellWord(words[0]) + " …"
}

func isProgram(word string) bool {
	_, err := exec.LookPath(word)
	return err == nil
}

// wrongArguments says, in the words of the usage line, which argument is missing or
// superfluous; nil if all are right.
func wrongArguments(cmd *cobra.Command, args []string) error {
	words := strings.Fields(cmd.Use)[1:]
	var needed []string
	for _, w := range words {
		if !strings.HasPrefix(w, "[") && w != "--" {
			needed = append(needed, strings.TrimSuffix(w, "..."))
		}
	}
	usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
	switch {
	case len(args) < len(needed):
		return usagef("%s is missing; write: %s", needed[len(args)], usage)
	case len(args) > len(words) && hintOf(cmd, args[len(words)]) != "":
		return usagef("%q is one argument too many; %s", args[len(words)], hintOf(cmd, args[len(words)]))
	case len(args) > len(words) && slices.Contains(fileEndings, filepath.Ext(args[len(words)])) && hintOf(cmd, "FILE") != "":
		return usagef("%q is one argument too many; %s", args[len(words)], hintOf(cmd, "FILE"))
	case len(args) > len(words) && !strings.Contains(strings.Join(words, " "), "..."):
		return usagef("%q is one argument too many; write: %s", args[len(words)], usage)
	}
	return nil
}

// fileEndings are the endings of files that bide runs.
var fileEndings = []string{".yml", ".yaml", ".cst"}

// readFlags are the flags that name a file with what a run is given.
var readFlags = []string{"param-file", "inputs", "data", "modules", "model"}

// emptyArgument rejects an empty run or file, which an unset variable of a script leaves: it
// does not mean the newest run, and no file for a flag does not mean the defaults.
func emptyArgument(cmd *cobra.Command, args []string) error {
	for _, name := range readFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.Type() == "string" && f.Value.String() == "" {
			return usagef("--%s is empty: name a file", name)
		}
	}
	words := strings.Fields(cmd.Use)[1:]
	for i, arg := range args {
		word := strings.Trim(words[min(i, len(words)-1)], "[].")
		switch {
		case arg != "" || !slices.Contains([]string{"RUN", "FILE", "ITEM"}, word):
		case strings.HasPrefix(words[min(i, len(words)-1)], "[RUN"):
			return usagef("RUN is empty: name a run, or leave it out for the newest one")
		default:
			return usagef("%s is empty; write: %s", word, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
	}
	return nil
}

// wrongFlag says what is wrong with a flag.
func wrongFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words) // the flag belongs to this command
	}
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	see := "; see " + cmd.CommandPath() + " --help"
	if cmd.Name() == "batch" {
		see += ", and bide docs coming-from for what parallel and xargs call it"
	}
	switch {
	case errors.As(err, &unknown) && hintOf(cmd, "--"+unknown.GetSpecifiedName()) != "":
		return usagef("%s has no flag --%s; %s", cmd.CommandPath(), unknown.GetSpecifiedName(), hintOf(cmd, "--"+unknown.GetSpecifiedName()))
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		if hint := hintOf(cmd, "-"+unknown.GetSpecifiedName()); hint != "" {
			see = "; " + hint
		}
		return usagef("%s has no flag -%s%s", cmd.CommandPath(), unknown.GetSpecifiedName(), see)
	case errors.As(err, &unknown):
		var names []string
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		if near := diag.Nearest(unknown.GetSpecifiedName(), names); near != "" { // without dashes, in which all are alike
			see = "; did you mean \"--" + near + "\"?"
		}
		return usagef("%s has no flag --%s%s", cmd.CommandPath(), unknown.GetSpecifiedName(), see)
	case errors.As(err, &bare):
		return usagef("--%s needs a value%s", bare.GetFlag().Name, see)
	case errors.As(err, &invalid):
		meant := ""
		if hint := formerly[cmd.CommandPath()+" --"+invalid.GetFlag().Name+" WORD"]; hint != "" {
			meant = "; " + hint
		}
		return usagef("--%s is %q; it must be %s%s", invalid.GetFlag().Name, invalid.GetValue(), valueOf(invalid.GetFlag()), meant)
	}
	return usagef("%w%s", err, see)
}

// valueOf says which values a flag can have, by its type.
func valueOf(f *pflag.Flag) string {
	if _, ok := f.Value.(*countFlag); ok {
		return someCount
	}
	if _, ok := f.Value.(*limitsFlag); ok {
		return "the name of a limit, or several with commas between them; bide limits shows them"
	}
	if p, ok := f.Value.(*policyFlag); ok && p.row.Kind == option.Count && len(p.row.Words) > 0 {
		return "a whole number, or " + strings.Join(p.row.Words, ", ")
	}
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number"
	case "uint64":
		return "a whole number that is not negative"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	}
	return "a " + f.Value.Type()
}

// renamedFlag keeps the old name of a flag working for a year, with a message about the new
// one.
func (s *streams) renamedFlag(fs *pflag.FlagSet, old, name string) {
	f := fs.Lookup(name)
	fs.Var(&oldFlag{Value: f.Value, named: func() {
		s.tell("--%s is now --%s; the old name works until November 2027", old, name)
		f.Changed = true
	}}, old, "the same as --"+name)
	if err := fs.MarkHidden(old); err != nil {
		panic(err) // the flag was added above
	}
}

// alsoNamed gives flags further names, which people know from other tools.
func alsoNamed(fs *pflag.FlagSet, names map[string]string) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(names[name], name))
	})
}

// retryNames maps names that other tools have for flags of a retry to ours.
var retryNames = map[string]string{"maximum-attempts": "attempts", "stop-after-attempt": "attempts", "max-tries": "attempts", "initial-interval": "initial-delay",
	"maximum-interval": "max-delay", "max-interval": "max-delay", "backoff-rate": "base", "backoff-coefficient": "base", "backoff-multiplier": "base", "delay": "initial-delay", "max-attempts": "attempts", "times": "attempts", "tries": "attempts", "max-retries": "retry",
	"backoff-factor": "base", "factor": "base", "multiplier": "base"}

// oldFlag is a flag under its old name.
type oldFlag struct {
	pflag.Value
	named func()
}

// Set sets the flag with the new name.
func (f *oldFlag) Set(text string) error {
	f.named()
	return f.Value.Set(text)
}

// someCount describes the values of a positive count.
const someCount = "a whole number of at least 1"

// readCount reads a whole number of at least 1. A sign is none: +2 means two more elsewhere.
func readCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && (n < 1 || text[0] == '+') {
		err = errors.New("it must be at least 1, without a sign")
	}
	return n, err
}

// countFlag is a flag for a whole number of at least 1; n keeps its value if the flag is not
// set.
type countFlag struct{ n *int }

func (f *countFlag) String() string {
	if f.n == nil {
		return "0"
	}
	return strconv.Itoa(*f.n)
}

func (f *countFlag) Type() string { return "int" }

// Set reads a number.
func (f *countFlag) Set(text string) error {
	n, err := readCount(text)
	if err != nil {
		return err
	}
	*f.n = n
	return nil
}

// limitsFlag is a flag for names of limits of the machine. It can be repeated.
type limitsFlag struct{ names *[]string }

func (f *limitsFlag) String() string {
	if f.names == nil {
		return ""
	}
	return strings.Join(*f.names, ",")
}

func (f *limitsFlag) Type() string { return "stringSlice" }

// Set adds names, separated by commas. It rejects an empty name, which an unset variable of a
// script leaves: what should be limited must not run without a limit.
func (f *limitsFlag) Set(text string) error {
	names := strings.Split(text, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); names[i] == "" {
			return errors.New("a name is empty")
		}
	}
	*f.names = append(*f.names, names...)
	return nil
}

// chosen checks that a flag of a command has one of its allowed words.
func chosen(command, flag, got string) error {
	words := flagWords(command, flag)
	if slices.Contains(words, got) {
		return nil
	}
	last := len(words) - 1
	if last == 0 {
		return fmt.Errorf("--%s is %q; write %s", flag, got, words[last])
	}
	return fmt.Errorf("--%s is %q; write %s or %s", flag, got, strings.Join(words[:last], ", "), words[last])
}
