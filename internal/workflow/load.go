package workflow

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/value"
)

// Options is what a file is read with.
type Options struct {
	// Params are the texts of --param, typed by the parameter's type. They
	// win over ParamFile.
	Params map[string]string
	// ParamFile are the values of --param-file.
	ParamFile map[string]any
	// Profile is the profile that --profile names; "" for the file's own.
	Profile string
	// Strict makes errors of the warnings.
	Strict bool
	// Unfilled accepts that required parameters have no value yet, as when a
	// file is checked and not run: what depends on them is not judged.
	Unfilled bool
	// ToRun judges the file as one that is about to run: a name that nothing sets is
	// an error then, and not only a warning.
	ToRun bool
	// LookupEnv tells of the environment that the run inherits; nil means
	// os.LookupEnv.
	LookupEnv func(name string) (value string, set bool)
	// Sh is the program that sh is, by its own name, such as dash; "" means the one
	// that PATH leads to.
	Sh string
	// Migration, if not nil, takes what of the file is written in an older spelling.
	Migration *Migration
	// Reads, if not nil, is told of every place where a condition reads a variable,
	// in the file and in those that it is composed with; of some more than once.
	Reads func(Read)
	// ReadFile reads the file and those it is composed with; nil means
	// the file system's, up to maxFile. A resumed run gives the texts that it recorded. A missing
	// file must be an fs.ErrNotExist.
	ReadFile func(path string) ([]byte, error)
	// WorkDir is the directory in which names of bases and templates are
	// looked up besides that of the file; "" means the current one.
	WorkDir string
}

// Load reads the workflow file at path with all it is composed of, fills in
// every default and checks it. The problems are sorted by place. The file is
// nil only if nothing could be understood; it must not be run where the list
// has errors.
func Load(path string, opt Options) (*File, diag.List) {
	l := newLoader(opt)
	text, err := l.opt.ReadFile(path)
	if err != nil {
		l.problems.Errorf(diag.Pos{File: path}, "cannot-read", "the file cannot be read: %v", bareError(err)).Suggest("%s", otherFile(path))
		return nil, l.problems
	}
	return l.root(path, text)
}

// Parse is Load with the text of the file given.
func Parse(path string, src []byte, opt Options) (*File, diag.List) {
	return newLoader(opt).root(path, src)
}

// Formerly lists the keys of a file that the program it was written for read
// without any effect, and that work here: what to expect to change. A file with
// keys that only bide has was not written for that program, and has none. The
// problems are all warnings with the code "was-ignored".
func Formerly(f *File) []diag.Problem {
	if f == nil {
		return nil
	}
	list := slices.Clone(f.former)
	list.Sort()
	return list
}

// maxFiles bounds how many files one workflow is made of.
const maxFiles = 300

// loader reads a file and those it is composed of.
type loader struct {
	opt      Options
	problems diag.List
	sources  map[string]*source
	chain    []string // files being read, to find cycles
	loads    int
	written  int     // values of the workflows written in their callers, at each use
	inside   []*node // workflows written in their callers that are being read, to find circles
}

func newLoader(opt Options) *loader {
	if opt.ReadFile == nil {
		opt.ReadFile = readFile
	}
	if opt.LookupEnv == nil {
		opt.LookupEnv = os.LookupEnv
	}
	return &loader{opt: opt, sources: map[string]*source{}}
}

// bareError leaves out the path that a message has already.
func bareError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func (l *loader) root(path string, text []byte) (*File, diag.List) {
	src := &source{path: path, text: text}
	l.sources[filepath.Clean(path)] = src
	f := l.load(src, given{texts: l.opt.Params, values: l.opt.ParamFile, unfilled: l.opt.Unfilled}, true)
	if f != nil {
		f.Others = map[string][]byte{}
		for p, s := range l.sources {
			if s != src {
				f.Others[p] = s.text
			}
		}
	}
	l.problems.Sort()
	return f, l.problems
}

// load builds the model of one source with the values it is given.
func (l *loader) load(src *source, in given, root bool) *File {
	l.loads++
	d := &decoder{file: &File{Path: src.path, Source: src.text}, problems: &l.problems, strict: l.opt.Strict, toRun: l.opt.ToRun && root, lookupEnv: l.opt.LookupEnv, sh: l.opt.Sh}
	l.chain = append(l.chain, filepath.Clean(src.path))
	defer func() { l.chain = l.chain[:len(l.chain)-1] }()
	tree := parseTree(src, &l.problems)
	if tree == nil {
		return nil
	}
	if m := l.opt.Migration; m != nil && root {
		m.src, d.migration = src, m
		m.unwrap(tree)
	}
	tree = unwrapped(tree)
	c := composer{l: l, d: d, dir: filepath.Dir(src.path), with: map[string]any{}, later: map[string]bool{}}
	c.build(c.compose(tree), in, root)
	return d.file
}

// build makes the model of a composed tree.
func (c *composer) build(tree *node, in given, root bool) {
	l, d := c.l, c.d
	in.values, in.with = overlay(c.with, in.values), slices.Concat(c.withs, in.with)
	for name := range c.later {
		if _, known := in.values[name]; !known && in.texts[name] == "" {
			value.Put(&in.later, name, true)
		}
	}
	d.parameters(tree, in)
	d.treeRoot = tree
	d.decode(tree)
	if root && l.opt.Profile != "" {
		d.file.Profile = l.opt.Profile
		d.knownProfile(tree, l.opt.Profile)
	}
	c.calls()
	if !d.native {
		d.file.former = d.former
	}
	d.check()
	if l.opt.Reads != nil {
		d.tellReads(l.opt.Reads)
	}
}

// overlay is low with the values of high over it.
func overlay(low, high map[string]any) map[string]any {
	out := make(map[string]any, len(low)+len(high))
	maps.Copy(out, low)
	maps.Copy(out, high)
	return out
}

// open reads another file that n names, from the first of several places where
// it is. It reports a file that is missing or is in its own chain, and
// gives nil then.
func (l *loader) open(d *decoder, n *node, what string, places []string) *source {
	if l.loads++; l.loads > maxFiles {
		d.errorf(n, "too-many-files", "the workflow is composed of more than %d files", maxFiles).Suggest("check for files that take each other in many times")
		return nil
	}
	for _, p := range places {
		p = filepath.Clean(p)
		if i := slices.Index(l.chain, p); i >= 0 {
			d.errorf(n, "import-cycle", "%s goes round in a circle: %s", what, strings.Join(append(slices.Clone(l.chain[i:]), p), " → ")).
				Suggest("remove one of these references")
			return nil
		}
		if s := l.sources[p]; s != nil {
			return s
		}
		text, err := l.opt.ReadFile(p)
		switch {
		case err == nil:
			s := &source{path: p, text: text}
			l.sources[p] = s
			return s
		case !errors.Is(err, fs.ErrNotExist):
			d.errorf(n, "cannot-read", "%s: %s cannot be read: %v", what, p, bareError(err)).Suggest("check the path and its permissions")
			return nil
		}
	}
	shown := places
	if len(shown) > 6 {
		shown = append(slices.Clone(places[:6]), "…")
	}
	d.errorf(n, "missing-file", "%s: there is no file %q", what, short(n.text)).Suggest("looked for %s", strings.Join(shown, ", "))
	return nil
}

// near gives the places of a path that is relative to a file.
func (l *loader) near(dir, path string) []string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return []string{filepath.Join(home, rest)}
		}
	}
	if filepath.IsAbs(path) {
		return []string{path}
	}
	return slices.Compact([]string{filepath.Join(dir, path), filepath.Join(l.opt.WorkDir, path)})
}

// search gives the places of a name: in each of some directories, as it is and
// with the endings of workflow files.
func (l *loader) search(dir, name string, dirs ...string) []string {
	names := []string{name}
	if !isFileName(name) {
		names = []string{name + ".yml", name + ".yaml", name}
	}
	var out []string
	for _, base := range slices.Compact([]string{dir, filepath.Clean(l.opt.WorkDir + "/.")}) {
		for _, sub := range dirs {
			for _, n := range names {
				out = append(out, filepath.Join(base, sub, n))
			}
		}
	}
	return out
}

func isFileName(s string) bool {
	return slices.Contains([]string{".yml", ".yaml", ".json"}, filepath.Ext(s))
}

// maxFile is the size in bytes above which a file is no workflow.
const maxFile = 64 << 20

// readFile reads a file, but no device and nothing without an end. A pipe that
// nobody may ever write is read only where the process was given it open.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeDevice != 0 {
		return nil, fmt.Errorf("%s is a device, and no file", name)
	}
	given := strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/") || name == "/dev/stdin"
	if !info.Mode().IsRegular() && !given {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxFile>>20)
	}
	return b, nil
}

// isProgram reports whether a path that is no file is the name of a program, maybe with
// arguments.
func isProgram(path string) bool {
	words := strings.Fields(path)
	if len(words) == 0 || strings.Contains(words[0], "/") {
		return false
	}
	_, err := exec.LookPath(words[0])
	return err == nil
}

// otherFile proposes a workflow or a pipeline beside a path that is none.
func otherFile(path string) string {
	dir := filepath.Dir(path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir = path
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "check the path"
	}
	if above := filepath.Join(dir, "..", filepath.Base(path)); dir != path {
		if info, err := os.Stat(above); err == nil && info.Mode().IsRegular() {
			return "it is in the directory above: " + above
		}
	}
	var names []string
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && slices.Contains([]string{".yml", ".yaml", ".cst"}, ext) {
			names = append(names, e.Name())
			if strings.TrimSuffix(e.Name(), ext) == filepath.Base(path) {
				return fmt.Sprintf("did you mean %q?", filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
	}
	switch near := diag.DidYouMean(filepath.Base(path), names); {
	case near != "":
		return near
	case isProgram(path):
		return "for a command write: bide exec -- " + short(path)
	case strings.Contains(strings.TrimSpace(path), " "):
		return "for a prompt write: bide exec \"claude: PROMPT\"; for a command: bide exec -- COMMAND"
	case dir == path && len(names) > 0:
		return "name a file in it, such as " + filepath.Join(dir, names[0])
	case len(names) == 0 && dir == ".":
		return "this directory has no workflow file: check the path"
	case dir == ".":
		return "here are " + diag.First(names, 3)
	}
	return "check the path"
}
