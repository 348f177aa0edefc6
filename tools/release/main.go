// Command release makes the files of a release from a checkout. docs/releasing.md says how.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bellerophon-io/bellerophon/tools/release/artifacts"
	"github.com/bellerophon-io/bellerophon/tools/release/checkout"
	"github.com/bellerophon-io/bellerophon/tools/release/goproxy"
	"github.com/bellerophon-io/bellerophon/tools/release/signing"
	"github.com/spf13/cobra"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "release", Short: "Make a release from a checkout", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newRequire(), newProxy(), newBuild(), newSign())
	return root.ExecuteContext(ctx)
}

func newRequire() *cobra.Command {
	return &cobra.Command{
		Use:     "require VERSION",
		Short:   "Make the modules of the checkout require a version of the published ones",
		Example: "  release require v0.2.0",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			source, err := checkout.Find(command.Context())
			if err != nil {
				return err
			}
			if err := goproxy.CheckVersion(arguments[0]); err != nil {
				return err
			}
			return source.Require(command.Context(), arguments[0])
		},
	}
}

func newProxy() *cobra.Command {
	var out string
	command := &cobra.Command{
		Use:   "proxy VERSION",
		Short: "Write the published modules to a folder that the go command takes as a module proxy",
		Long: `Writes the published modules as they are in the checkout, with files that are not committed. So a version
can be tried out before it is published.`,
		Example: `  release proxy v0.1.0 --out /tmp/proxy
  GOPROXY=file:///tmp/proxy,$(go env GOPROXY) GONOSUMDB=` + checkout.Library + ` GOMODCACHE=/tmp/modules \
    go install ` + checkout.Library + `/bellerophon@v0.1.0`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			source, err := checkout.Find(command.Context())
			if err != nil {
				return err
			}
			return goproxy.Write(command.Context(), source, arguments[0], out)
		},
	}
	command.Flags().StringVar(&out, "out", "", "the folder")
	_ = command.MarkFlagRequired("out")
	return command
}

func newBuild() *cobra.Command {
	var out string
	var platforms []string
	var check bool
	command := &cobra.Command{
		Use:   "build VERSION",
		Short: "Build the archives, images and charts of a release, with their sums, bills of materials and notices",
		Example: `  release build v0.1.0 --out bin/release
  release build v0.1.0 --out bin/release --platforms linux/amd64 --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			chosen, err := parse(platforms)
			if err != nil {
				return err
			}
			source, err := checkout.Find(command.Context())
			if err != nil {
				return err
			}
			if err := source.Committed(command.Context()); err != nil {
				return err
			}
			return build(command.Context(), source, artifacts.Options{Version: arguments[0], Platforms: chosen, Out: out, Progress: command.OutOrStdout()}, check)
		},
	}
	flags := command.Flags()
	flags.StringVar(&out, "out", "", "the folder for the files, which must not exist")
	_ = command.MarkFlagRequired("out")
	flags.StringSliceVar(&platforms, "platforms", names(), "the platforms of the command; images are made for the platforms with Linux")
	flags.BoolVar(&check, "check", false, "build everything a second time, without the cache of the first, and compare each byte")
	return command
}

// build makes a release, and perhaps compares it with a second one. It removes the files if the checkout changes meanwhile.
func build(ctx context.Context, source checkout.Checkout, options artifacts.Options, check bool) (err error) {
	commit, err := source.Commit(ctx)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "bellerophon-release-")
	if err != nil {
		return fmt.Errorf("build a release: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	first, second := filepath.Join(temporary, "first"), filepath.Join(temporary, "another")
	if err := errors.Join(os.Mkdir(first, 0o700), os.Mkdir(second, 0o700)); err != nil {
		return fmt.Errorf("build a release: %w", err)
	}
	out := options.Out
	options.Temporary = first
	if err := artifacts.Make(ctx, source, options); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(out))
		}
	}()
	if err := isStill(ctx, source, commit); err != nil || !check {
		return err
	}
	fmt.Fprintln(options.Progress, "building again with an empty cache, to compare")
	options.Out, options.Temporary, options.Cache = filepath.Join(second, "files"), second, filepath.Join(second, "cache")
	if err := artifacts.Make(ctx, source, options); err != nil {
		return err
	}
	if err := isStill(ctx, source, commit); err != nil {
		return err
	}
	if err := artifacts.Compare(out, options.Out); err != nil {
		return err
	}
	fmt.Fprintf(options.Progress, "%s: both builds have the same bytes\n", out)
	return nil
}

// isStill returns an error if the checkout is no longer at a commit, without other changes.
func isStill(ctx context.Context, source checkout.Checkout, commit string) error {
	now, err := source.Commit(ctx)
	if err == nil && now == commit {
		err = source.Committed(ctx)
	}
	if err != nil || now != commit {
		return errors.Join(errors.New("the checkout was changed while it was built, so the files were removed; build it again, and change nothing meanwhile"), err)
	}
	return nil
}

func newSign() *cobra.Command {
	var key string
	command := &cobra.Command{
		Use:     "sign FOLDER",
		Short:   "Sign the sums of a release with a key",
		Example: "  release sign bin/release --key release.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, arguments []string) error {
			return signing.Sign(filepath.Join(arguments[0], artifacts.Sums), key)
		},
	}
	command.Flags().StringVar(&key, "key", "", "file of an ECDSA key on the curve P-256, in PEM and unencrypted")
	_ = command.MarkFlagRequired("key")
	return command
}

// names returns the platforms of a release, as --platforms takes them.
func names() (all []string) {
	for _, platform := range artifacts.Platforms {
		all = append(all, platform.OS+"/"+platform.Arch)
	}
	return all
}

func parse(platforms []string) (chosen []goproxy.Platform, err error) {
	for _, name := range platforms {
		at := slices.Index(names(), name)
		if at < 0 {
			return nil, fmt.Errorf("--platforms has %q; allowed are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, artifacts.Platforms[at])
	}
	return chosen, nil
}
