package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/pipeline/syntax"
)

// SetCalls changes options of calls in the text of a pipeline. Each change is
// NAME.OPTION=VALUE: the name of a variable whose calls get the option, of a
// module, all of whose calls get it, or of a policy; the option and the value as
// in a with clause. The error names every change that cannot be made.
func SetCalls(src []byte, changes []string) ([]byte, error) {
	var errs []error
	for _, c := range changes {
		text, err := setCall(src, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("--set %s: %w", c, err))
			continue
		}
		src = text
	}
	return src, errors.Join(errs...)
}

func setCall(src []byte, change string) ([]byte, error) {
	path, value, ok := strings.Cut(change, "=")
	dot := strings.LastIndexByte(path, '.')
	if !ok || dot < 1 {
		return nil, errors.New("write it as NAME.OPTION=VALUE, such as hits.retry=5")
	}
	name, opt := path[:dot], path[dot+1:]
	if syntax.OptionByName(opt) == syntax.BadOption {
		hint := diag.DidYouMean(opt, syntax.UsableNames())
		return nil, errors.New(strings.TrimRight(fmt.Sprintf("there is no option %s; %s", opt, hint), "; "))
	}
	f, _ := syntax.Parse("", src) // what is wrong with it is said when it is read
	edits, names := callEdits(f, name, opt, value)
	if len(edits) == 0 {
		hint := diag.DidYouMean(name, names)
		return nil, errors.New(strings.TrimRight(fmt.Sprintf("the pipeline has no variable, module or policy %s with a call; %s", name, hint), "; "))
	}
	slices.SortFunc(edits, func(a, b edit) int { return int(b.Start - a.Start) })
	for _, e := range edits { // from the end
		src = slices.Concat(src[:e.Start], []byte(e.text), src[e.End:])
	}
	return src, nil
}

// edit puts a text in the place of another.
type edit struct {
	syntax.Span
	text string
}

// callEdits gives what is to be done where a name is, and all the names there
// are.
func callEdits(f *syntax.File, name, opt, value string) (edits []edit, names []string) {
	variable := map[*syntax.CallExpr]string{}
	syntax.InspectFile(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.PolicyDecl:
			names = append(names, n.Name.Name)
			if n.Name.Name == name && len(n.Options) > 0 {
				edits = append(edits, inOptions(n.Options, opt, value))
			}
		case *syntax.AssignDecl:
			if c, is := syntax.Unparen(n.Value).(*syntax.CallExpr); is {
				variable[c] = n.Name.Name
			}
		case *syntax.CallExpr:
			at, assigned := variable[n]
			if names = append(names, n.Func.String()); assigned {
				names = append(names, at)
			}
			if n.Func.String() != name && (!assigned || at != name) {
				break
			}
			if n.With != nil && len(n.With.Options) > 0 {
				edits = append(edits, inOptions(n.With.Options, opt, value))
			} else {
				end := n.Extent().End
				edits = append(edits, edit{syntax.Span{Start: end, End: end}, " with " + opt + ": " + value})
			}
		}
		return true
	})
	return edits, names
}

// inOptions puts an option among others.
func inOptions(list []*syntax.Option, opt, value string) edit {
	for _, o := range list {
		if o.Kind == syntax.OptionByName(opt) {
			return edit{o.Extent(), opt + ": " + value}
		}
	}
	end := list[len(list)-1].Extent().End
	return edit{syntax.Span{Start: end, End: end}, ", " + opt + ": " + value}
}
