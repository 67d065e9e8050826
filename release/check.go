package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// checked makes the packages of this machine in two clones and looks at them.
func checked(r release) error {
	dir, err := os.MkdirTemp("", "bide-check")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if changed, err := output("git", "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, fmt.Errorf("the tree has changes that are not committed, so that a clone of it is another:\n%s", changed))
	}
	tree := r.root
	r.only = []platform{{runtime.GOOS, runtime.GOARCH}}
	var sums [2]string
	for i := range sums {
		r.root = filepath.Join(dir, fmt.Sprint("clone", i))
		if err := run(dir, nil, "git", "clone", "-q", tree, r.root); err != nil {
			return err
		}
		r.out = filepath.Join(dir, fmt.Sprint(i))
		if err := r.make(); err != nil {
			return err
		}
		if sums[i], err = sumsOf(r.out); err != nil {
			return err
		}
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("two makings differ:\n%s\n%s", sums[0], sums[1])
	}
	fmt.Printf("made in two clones, the same to the byte:\n%s", sums[0])
	base := filepath.Join(r.out, r.base(products[0].name, r.only[0]))
	unpack := [][]string{{"tar", "-xzf", base + ".tar.gz"}}
	programs := []string{"bide"}
	if runtime.GOOS == "linux" {
		unpack, programs = append(unpack, []string{"dpkg-deb", "-x", base + ".deb", "."}), append(programs, "usr/bin/bide")
		for _, x := range products {
			if err := listed(filepath.Join(r.out, r.base(x.name, r.only[0])), &x); err != nil {
				return err
			}
		}
	}
	for i, command := range unpack {
		if err := quickstart(filepath.Join(dir, fmt.Sprint("unpacked", i)), command, programs[i]); err != nil {
			return err
		}
	}
	if err := beside(filepath.Join(dir, "unpacked0"), filepath.Join(r.out, r.base("bide-temporal", r.only[0]))+".tar.gz"); err != nil {
		return err
	}
	return linted(tree, filepath.Join(dir, "unpacked0"))
}

// beside unpacks bide-temporal beside bide, which has to find it there: it then fails for
// want of a server.
func beside(dir, archive string) error {
	if err := run(dir, nil, "tar", "-xzf", archive); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(dir, "bide"), "worker")
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS=127.0.0.1:1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no Temporal server at 127.0.0.1:1") {
		return fmt.Errorf("bide worker with %s: %v\n%s", filepath.Base(archive), err, out)
	}
	fmt.Printf("bide finds the program of %s\n", filepath.Base(archive))
	return nil
}

// listed looks what the packages of linux say they hold.
func listed(base string, x *product) error {
	for _, command := range [][]string{{"dpkg-deb", "-c", base + ".deb"}, {"rpm", "-qlp", base + ".rpm"}} {
		out, err := output(command[0], command[1:]...)
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Printf("not looked at: there is no %s here\n", command[0])
			continue
		}
		if err != nil {
			return err
		}
		wanted := []string{"/usr/bin/" + x.name}
		for _, at := range x.places {
			wanted = append(wanted, at[1])
		}
		if x.commands {
			wanted = append(wanted, "/usr/share/man/man1/bide-run.1")
		}
		for _, want := range wanted {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%s has no %s", command[0], want)
			}
		}
		fmt.Printf("%s of %s: %d files\n", command[0], x.name, strings.Count(out, "\n")+1)
	}
	return nil
}

// quickstart unpacks a package in an empty folder, and runs from it what a
// newcomer runs first.
func quickstart(dir string, unpack []string, program string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive := unpack[len(unpack)-1]
	if unpack[0] == "dpkg-deb" {
		archive = unpack[2]
	}
	if err := run(dir, nil, unpack[0], unpack[1:]...); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Printf("not unpacked: there is no %s here\n", unpack[0])
			return nil
		}
		return err
	}
	file := filepath.Join(dir, "examples/quickstart.yml")
	if program != "bide" {
		file = filepath.Join(dir, "usr/share/doc/bide/examples/quickstart.yml")
	}
	cmd := exec.Command(filepath.Join(dir, program), "run", "--progress", "none", file)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BIDE_HOME="+filepath.Join(dir, "home"))
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "report - fetched on attempt 3") {
		return fmt.Errorf("the quick start from %s: %v\n%s", filepath.Base(archive), err, out)
	}
	said, err := output(filepath.Join(dir, program), "version")
	fmt.Printf("the quick start runs from %s: %s\n", filepath.Base(archive), said)
	return err
}
