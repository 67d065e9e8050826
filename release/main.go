// Command release makes the packages of bide from this tree, and checks them:
//
//	go run . -out DIR      archives, deb and rpm for linux, archives for darwin: of bide, and
//	                       of bide-temporal, which is a package of its own
//	go run . -check        made in two clones, the same to the byte; listed; what they hold
//	                       runs the quick start; manual pages, completions and what
//	                       editors and services read pass their linters
//
// It builds with `go build -trimpath`, packs with nothing that differs from one
// day to the next (times are that of the commit), and leaves deb and rpm to nfpm.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platform is what a package is for.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// release is one making of all packages.
type release struct {
	root    string // of the repository
	out     string
	version string
	time    time.Time // of the commit: the time of everything in a package
	only    []platform
}

func main() {
	log.SetFlags(0)
	out := flag.String("out", "dist", "where the packages go")
	check := flag.Bool("check", false, "make them for this machine in two clones, and check them")
	flag.Parse()
	r, err := fromTree()
	switch {
	case err != nil:
	case *check:
		err = checked(r)
	default:
		r.out, r.only = *out, platforms
		err = r.make()
	}
	if err != nil {
		log.Fatal("release: ", err)
	}
}

// fromTree reads what is to be released from git.
func fromTree() (release, error) {
	var r release
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return r, err
	}
	seconds, err := output("git", "log", "-1", "--format=%ct")
	if err != nil {
		return r, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return r, err
	}
	r.root, r.time = root, time.Unix(n, 0).UTC()
	// A tag such as v1.2.3, or what comes before every version.
	tag, err := output("git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*")
	if err != nil {
		hash, err := output("git", "rev-parse", "--short=12", "HEAD")
		if err != nil {
			return r, err
		}
		tag = "v0.0.0~" + r.time.Format("20060102150405") + "." + hash
	}
	r.version = strings.TrimPrefix(tag, "v")
	return r, nil
}

// make writes every package and the sums of all.
func (r release) make() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bide-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for i := range products {
		x, stage := &products[i], filepath.Join(work, products[i].name)
		if err := os.Mkdir(stage, 0o755); err != nil {
			return err
		}
		if x.commands {
			if err := r.extras(stage, x); err != nil {
				return err
			}
		}
		for from, to := range x.files {
			text, err := os.ReadFile(filepath.Join(r.root, from))
			if err != nil {
				return err
			}
			if err := write(filepath.Join(stage, to), text); err != nil {
				return err
			}
		}
		for _, p := range r.only {
			if err := r.packages(stage, x, p); err != nil {
				return fmt.Errorf("%s %s/%s: %w", x.name, p.os, p.arch, err)
			}
		}
	}
	sums, err := sumsOf(r.out)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums), 0o644)
}

// product is a program that has packages of its own.
type product struct {
	name, about string
	module      string            // its folder in the repository
	source      string            // of the program, in its module
	files       map[string]string // of the repository, and where they are in an archive
	commands    bool              // it has manual pages, completions and a schema
	places      [][2]string       // of files of an archive in a system
	needs       []string
}

var products = []product{
	{name: "bide", about: "take flaky work to its end: retried, in parallel, recorded, resumable", source: "./cmd/bide", commands: true,
		files: map[string]string{"README.md": "README.md", "LICENSE": "LICENSE", "examples/quickstart.yml": "examples/quickstart.yml", "release/" + dockerfile: dockerfile},
		places: [][2]string{{"LICENSE", "/usr/share/doc/bide/copyright"}, {"README.md", "/usr/share/doc/bide/README.md"},
			{"examples/quickstart.yml", "/usr/share/doc/bide/examples/quickstart.yml"}, {"workflow.schema.json", "/usr/share/bide/workflow.schema.json"},
			{"completions/bide.bash", "/usr/share/bash-completion/completions/bide"}, {"completions/_bide", "/usr/share/zsh/vendor-completions/_bide"},
			{"completions/bide.fish", "/usr/share/fish/vendor_completions.d/bide.fish"}}},
	{name: "bide-temporal", about: "bide's part that speaks with Temporal: one file on many machines", module: "cmd/bide-temporal", source: ".", needs: []string{"bide"},
		files:  map[string]string{"docs/cluster.md": "cluster.md", "LICENSE": "LICENSE"},
		places: [][2]string{{"LICENSE", "/usr/share/doc/bide-temporal/copyright"}, {"cluster.md", "/usr/share/doc/bide-temporal/cluster.md"}}},
}

// extras makes what a program with commands has beside it: manual pages,
// completions and the schema.
func (r release) extras(stage string, x *product) error {
	host := filepath.Join(filepath.Dir(stage), "host")
	if err := r.build(host, x, platform{}); err != nil {
		return err
	}
	home := "BIDE_HOME=" + filepath.Join(filepath.Dir(stage), "home")
	if err := run(stage, []string{home}, host, "man", filepath.Join(stage, "man")); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"completions/bide.bash": {"completion", "bash"}, "completions/_bide": {"completion", "zsh"},
		"completions/bide.fish": {"completion", "fish"}, "workflow.schema.json": {"schema"},
	} {
		text, err := output(host, args...)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(stage, name), []byte(text+"\n")); err != nil {
			return err
		}
	}
	return nil
}

// build makes the program, for a platform or for this machine.
func (r release) build(to string, x *product, p platform) error {
	env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
	if p.os != "" {
		env = append(env, "GOOS="+p.os, "GOARCH="+p.arch)
	}
	return run(filepath.Join(r.root, x.module), env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", to, x.source)
}

func (r release) packages(stage string, x *product, p platform) error {
	program := filepath.Join(stage, x.name)
	if err := r.build(program, x, p); err != nil {
		return err
	}
	if err := r.archive(stage, x, p); err != nil {
		return err
	}
	sbom, err := bom(program)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(r.out, r.base(x.name, p)+".cdx.json"), sbom); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	config, err := r.nfpm(stage, x, p)
	if err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		target := filepath.Join(r.out, r.base(x.name, p)+"."+kind)
		env := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)}
		if err := run(filepath.Join(r.root, "release"), env, "go", "tool", "nfpm", "package", "--config", config, "--packager", kind, "--target", target); err != nil {
			return err
		}
	}
	return nil
}

func (r release) base(name string, p platform) string {
	return name + "_" + strings.ReplaceAll(r.version, "~", "-") + "_" + p.os + "_" + p.arch
}

// sumsOf is the SHA-256 of every file of a folder, as sha256sum writes them.
func sumsOf(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range files {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return b.String(), nil
}

func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// filesOf lists the files below a folder, in order.
func filesOf(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	slices.Sort(out)
	return out, err
}

func run(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var errw bytes.Buffer
	cmd.Stderr = &errw
	out, err := cmd.Output()
	if err != nil {
		return "", errors.Join(fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err), errors.New(errw.String()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
