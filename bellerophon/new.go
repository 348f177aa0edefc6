package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/bellerophon-io/bellerophon/bellerophon/scaffold"
	"github.com/spf13/cobra"
)

func newNew() *cobra.Command {
	var options scaffold.Options
	var folder string
	command := &cobra.Command{
		Use:   "new MODULE",
		Short: "Write a project with a first controller",
		Long: `Writes a small Go project into a folder: a custom resource, a reconciler that keeps a Deployment for
each object and reports its state, tests, a program with health, metrics and leader election, and a
Helm chart. MODULE is the path of the Go module. All other names follow from it: of
example.org/team/shop, the kind is Shop, and the group of its API is team.example.org.

It writes all files or none. Files that exist stay as they are. The project is yours from then on:
the command never changes it again.`,
		Example: `  bellerophon new example.org/shop
  bellerophon new github.com/jane/herd-operator --kind Hero --plural heroes --group example.org --version v1
  bellerophon new example.org/shop --dir shop`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			options.Module = args[0]
			project, err := scaffold.New(options)
			if err != nil {
				return err
			}
			files, err := project.WriteTo(folder)
			if err != nil {
				return err
			}
			printProject(command.OutOrStdout(), project, folder, files)
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&folder, "dir", ".", "folder of the project, which is created if it does not exist")
	flags.StringVar(&options.Name, "name", "", "name of the program and of the chart; default the last part of MODULE")
	flags.StringVar(&options.Kind, "kind", "", "kind of the custom resource; default the name in upper camel case, without -operator or -controller")
	flags.StringVar(&options.Plural, "plural", "", "plural of the kind in URLs; default the regular English one")
	flags.StringVar(&options.Group, "group", "", "group of the API; default the other parts of MODULE, the last one first")
	flags.StringVar(&options.Version, "version", scaffold.DefaultVersion, "version of the API")
	flags.StringVar(&options.Checkout, "checkout", "", "checkout of Bellerophon that the project uses; default the released version of this program, or the checkout that it was built from")
	_ = command.MarkFlagDirname("dir")
	_ = command.MarkFlagDirname("checkout")
	return command
}

// printProject prints what was written, and the next commands.
func printProject(to io.Writer, project scaffold.Project, folder string, files []scaffold.File) {
	fmt.Fprintf(to, "module %s: kind %s (%s.%s), version %s\n", project.Module, project.Kind, project.Plural, project.Group, project.Version)
	for _, file := range files {
		fmt.Fprintln(to, "  "+file.Path)
	}
	if checkout := project.Versions.Checkout; checkout != "" {
		fmt.Fprintf(to, "go.mod uses the checkout %s; remove its replace line to use a released version\n", checkout)
	}
	fmt.Fprintln(to, "\nnext:")
	if filepath.Clean(folder) != "." {
		fmt.Fprintln(to, "  cd "+folder)
	}
	fmt.Fprintln(to, `  go mod tidy           # completes go.mod, and writes go.sum
  go test -short ./...  # the tests in virtual time
  bellerophon cluster   # a local cluster, in another terminal; README.md goes on from there`)
}
