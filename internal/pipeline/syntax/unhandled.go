package syntax

import "fmt"

// Unhandled is the panic of a reader of a tree that met a node or an option
// that it does not know. It is a mistake in bide, not in the source: a kind of
// node was added without telling every reader. See [Recover].
type Unhandled struct {
	Reader string // who does not know it: "the formatter"
	Node   any
}

func (u *Unhandled) Error() string {
	return fmt.Sprintf("%s does not know what to do with %T; this is a mistake in bide, please report it", u.Reader, u.Node)
}

// Recover, deferred, makes an error of the panic of an [Unhandled]. Any other
// panic continues.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Unhandled:
		*err = r
	default:
		panic(r)
	}
}
