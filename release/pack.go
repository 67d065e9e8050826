package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// dockerfile makes an image out of an unpacked archive for linux.
const dockerfile = "Dockerfile"

// archive writes a tar.gz of what is staged: the same files give the same bytes.
func (r release) archive(stage string, x *product, p platform) error {
	f, err := os.Create(filepath.Join(r.out, r.base(x.name, p)+".tar.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	zip := gzip.NewWriter(f)
	pack := tar.NewWriter(zip)
	files, err := filesOf(stage)
	if err != nil {
		return err
	}
	for _, name := range files {
		short, err := filepath.Rel(stage, name)
		if err != nil {
			return err
		}
		if short == dockerfile && p.os != "linux" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if short == x.name {
			mode = 0o755
		}
		head := &tar.Header{Name: short, Mode: mode, Size: int64(len(text)), ModTime: r.time, Format: tar.FormatPAX}
		if err := pack.WriteHeader(head); err != nil {
			return err
		}
		if _, err := pack.Write(text); err != nil {
			return err
		}
	}
	if err := pack.Close(); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return f.Close()
}

// content is a file of a package, as nfpm reads it.
type content struct {
	Src  string `json:"src"`
	Dst  string `json:"dst"`
	Info struct {
		Mode  int    `json:"mode"`
		MTime string `json:"mtime"`
	} `json:"file_info"`
}

// nfpm writes the description of a package and gives its file. JSON is YAML.
func (r release) nfpm(stage string, x *product, p platform) (string, error) {
	var contents []content
	put := func(src, dst string, mode int) {
		c := content{Src: filepath.Join(stage, src), Dst: dst}
		c.Info.Mode, c.Info.MTime = mode, r.time.Format("2006-01-02T15:04:05Z")
		contents = append(contents, c)
	}
	put(x.name, "/usr/bin/"+x.name, 0o755)
	for _, at := range x.places {
		put(at[0], at[1], 0o644)
	}
	if x.commands {
		pages, err := filesOf(filepath.Join(stage, "man"))
		if err != nil {
			return "", err
		}
		for _, page := range pages {
			put(filepath.Join("man", filepath.Base(page)), "/usr/share/man/man1/"+filepath.Base(page), 0o644)
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"name": x.name, "arch": p.arch, "platform": "linux", "version": r.version, "version_schema": "none",
		"section": "utils", "priority": "optional", "license": "MIT", "homepage": "https://github.com/bide-dev/bide",
		"maintainer": "bide <bide@users.noreply.github.com>", "mtime": r.time.Format("2006-01-02T15:04:05Z"),
		"description": x.about, "depends": x.needs,
		"contents": contents, "rpm": map[string]any{"buildhost": "localhost"},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(stage), "nfpm.yaml")
	return file, os.WriteFile(file, text, 0o644)
}

// bom is the bill of materials of a program in the form of CycloneDX, from what
// the Go tool wrote into it.
func bom(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	of := func(kind, path, version string) component {
		return component{kind, path, version, "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}
	}
	parts := []component{of("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, d := range info.Deps {
		version := d.Version
		if d.Replace != nil && d.Replace.Version != "" {
			d, version = d.Replace, d.Replace.Version
		} else if d.Replace != nil { // by a folder: of the same commit
			version = info.Main.Version
		}
		parts = append(parts, of("library", d.Path, version))
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": of("application", info.Main.Path, info.Main.Version)},
		"components": parts,
	}, "", "  ")
	return append(text, '\n'), err
}
