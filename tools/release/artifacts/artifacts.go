// Package artifacts makes the files of a release. The same commit and the same Go give the same bytes.
package artifacts

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"github.com/bellerophon-io/bellerophon/tools/release/goproxy"
	"github.com/bellerophon-io/bellerophon/tools/release/notices"
)

// command is the package of the command in the module bellerophon.
const command = "bellerophon"

// images are the programs with an image, by their packages.
var images = map[string]image.Program{
	"bellerophon/bellerophon-operator": image.Operator,
	"bellerophon/bellerophon-server":   image.Server,
}

// Platforms are the platforms of a release. Its images are for the platforms with Linux.
var Platforms = []goproxy.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}, {OS: "darwin", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}}

// Options say which release is made, and where.
type Options struct {
	Version   string
	Platforms []goproxy.Platform
	Out       string // the folder for the files, which must not exist
	Temporary string // an existing folder, which the caller may remove afterwards
	Cache     string // the build cache; if empty, it is the one of the user
	Progress  io.Writer
}

// maker makes the files of one release.
type maker struct {
	source  checkout.Checkout
	version string
	at      time.Time // the time of the commit, which charts need
	out     string
	install *goproxy.Installer
	goRoot  string
	to      io.Writer // of progress
}

// Make makes the files of a release.
func Make(ctx context.Context, source checkout.Checkout, options Options) error {
	at, err := source.CommitTime(ctx)
	if err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find the licence of Go: %w", err)
	}
	install, err := goproxy.NewInstaller(ctx, source, options.Version, options.Temporary, options.Cache)
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(options.Out), 0o755) // A new clone has no bin.
	if err == nil {
		err = os.Mkdir(options.Out, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	m := &maker{source: source, version: options.Version, at: at, out: options.Out, install: install, goRoot: strings.TrimSpace(string(root)), to: options.Progress}
	for _, platform := range options.Platforms {
		if err := m.archive(ctx, platform); err != nil {
			return err
		}
		if platform.OS != "linux" {
			continue
		}
		for pkg, program := range images {
			if err := m.image(ctx, pkg, program, platform); err != nil {
				return err
			}
		}
	}
	if err := m.charts(ctx); err != nil {
		return err
	}
	return writeSums(options.Out)
}

// archive makes the archive of the command, and its bill of materials.
func (m *maker) archive(ctx context.Context, platform goproxy.Platform) error {
	program, licences, err := m.program(ctx, command, platform)
	if err != nil {
		return err
	}
	name := m.name(command, platform)
	built, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	licence, err := os.ReadFile(filepath.Join(m.source.Root, "LICENSE"))
	if err != nil {
		return fmt.Errorf("read the licence: %w", err)
	}
	if err := pack(name+".tar.gz", []packed{{"LICENSE", licence, 0o644}, {"THIRD-PARTY-NOTICES", []byte(licences), 0o644}, {command, built, 0o755}}); err != nil {
		return err
	}
	return image.WriteSBOM(program, name+".cdx.json")
}

// image makes the image of a program, its bill of materials, and its notices.
func (m *maker) image(ctx context.Context, pkg string, of image.Program, platform goproxy.Platform) error {
	program, licences, err := m.program(ctx, pkg, platform)
	if err != nil {
		return err
	}
	name := m.name(filepath.Base(pkg), platform)
	if _, err := of.Write(program, of.Image, name+".image.tar"); err != nil {
		return err
	}
	if err := os.WriteFile(name+".notices.txt", []byte(licences), 0o644); err != nil {
		return fmt.Errorf("write the notices: %w", err)
	}
	return image.WriteSBOM(program, name+".cdx.json")
}

// program installs a program, and returns its file and the licences of what it contains.
func (m *maker) program(ctx context.Context, pkg string, platform goproxy.Platform) (file, licences string, err error) {
	fmt.Fprintf(m.to, "building %s for %s/%s\n", filepath.Base(pkg), platform.OS, platform.Arch)
	if file, err = m.install.Install(ctx, pkg, platform); err != nil {
		return "", "", err
	}
	licences, err = notices.Of(file, m.install.Modules(), m.goRoot)
	return file, licences, err
}

// name returns the path of a file of the release, without its ending.
func (m *maker) name(program string, platform goproxy.Platform) string {
	return filepath.Join(m.out, program+"_"+m.version+"_"+platform.String())
}
