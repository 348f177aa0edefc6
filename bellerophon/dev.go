package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
)

// largestFile bounds --max-file-size, in bytes.
const largestFile = 2 << 30

func newDev() *cobra.Command {
	var options dev.Options
	var kubeconfig, part, output, maxFileSize string
	command := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Run a project with a devfile in a cluster while you edit it",
		Long: `Deploys the containers of a project's devfile, syncs the files to them, builds, runs, and forwards
the ports. It does so again whenever a file, the devfile or an object in the cluster changes, until
Ctrl-C. Then it deletes what it made, unless --keep is given. DIR is the project's directory, by
default the current one.

Files that .gitignore or .odoignore names are not synced. Nothing of the project is executed on this
machine, and no symbolic link is followed out of it. The container's image needs sh and tar.

It needs no custom resource: what is wanted, and how far it has come, are two ConfigMaps. The rights
that it needs are in docs/dev.md. With --part, the client and the controller run apart.`,
		Example: `  bellerophon dev
  bellerophon dev ./shop --namespace team-a
  bellerophon dev ./shop --debug --keep
  bellerophon dev --output json | jq .status.state`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(command *cobra.Command, args []string) error {
			options.Directory, options.Part = ".", dev.Part(part)
			if len(args) > 0 {
				options.Directory = args[0]
			}
			size, err := resource.ParseQuantity(maxFileSize)
			if err != nil || size.Value() < 1 || size.Value() > largestFile {
				return fmt.Errorf("--max-file-size is %q; give a size such as 100Mi, up to 2Gi", maxFileSize)
			}
			options.Files.MaxFileSize = size.Value()
			options.Logger = slog.New(slog.DiscardHandler) // The Status says what is wrong.
			switch output {
			case "text":
				stdout := screen.New(os.Stdout)
				options.Output = &lines{to: stdout}
				options.Say = func(line string) { stdout.Println(stdout.Paint(screen.Yellow, screen.Clean(line))) }
				options.Show = client.NewScreen(stdout).Show
				defer stdout.Live()
			case "json":
				stderr := screen.New(os.Stderr)
				options.Output = &lines{to: stderr}
				options.Say = func(line string) { stderr.Println(screen.Clean(line)) }
				options.Show = func(view client.View) { printView(os.Stdout, view) }
			default:
				return fmt.Errorf("--output is %q; allowed is text or json", output)
			}
			if err := options.Complete(); err != nil {
				return err
			}
			config, err := connect.Config(kubeconfig)
			if err != nil {
				return err
			}
			if options.Namespace == "" {
				options.Namespace = connect.Namespace(kubeconfig)
			}
			if _, err := connect.Check(command.Context(), config); err != nil {
				return err
			}
			klog.SetLogger(logr.Discard()) // client-go logs each connection that ends.
			return dev.Run(command.Context(), config, options)
		},
	}
	parts := make([]string, 0, len(dev.Parts()))
	for _, each := range dev.Parts() {
		parts = append(parts, string(each))
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster; default as kubectl")
	flags.StringVarP(&options.Namespace, "namespace", "n", "", "namespace for everything that is made; default the one of the kubeconfig")
	flags.StringVar(&options.Application, "name", "", "name of everything that is made; default metadata.name of the devfile, or the directory's name")
	flags.BoolVar(&options.Debug, "debug", false, "run the devfile's debug command in place of its run command")
	flags.BoolVar(&options.Keep, "keep", false, "keep what was made when the command ends")
	flags.StringVar(&part, "part", string(dev.BothParts), "what this process does: "+strings.Join(parts, ", "))
	flags.StringArrayVar(&options.Files.Ignore, "ignore", nil, "pattern of files that are not synced, as in .gitignore; may be repeated")
	flags.StringVar(&maxFileSize, "max-file-size", "100Mi", "files above this size are not synced, up to 2Gi")
	flags.StringVarP(&output, "output", "o", "text", "text, or json for a document for each change of the state")
	_ = command.RegisterFlagCompletionFunc("part", cobra.FixedCompletions(parts, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// devView is a view as --output json prints it.
type devView struct {
	Problem string          `json:"problem,omitempty"`
	Files   contract.Files  `json:"files"`
	InSync  bool            `json:"inSync"`
	Status  contract.Status `json:"status"`
}

func printView(out io.Writer, view client.View) {
	shown := devView{Files: view.Files, InSync: view.IsInSync(), Status: view.Status}
	if view.Problem != nil {
		shown.Problem = view.Problem.Error()
	}
	_ = json.NewEncoder(out).Encode(shown) // A reader that has gone needs no more.
}

// lines prints the output of commands, a whole line at a time, without characters that could change the screen.
type lines struct {
	to *screen.Screen

	mu      sync.Mutex
	pending []byte
}

// longestLine bounds a line without an end, in bytes.
const longestLine = 16 << 10

// Write implements io.Writer.
func (l *lines) Write(part []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, part...)
	for {
		end := bytes.IndexByte(l.pending, '\n')
		if end < 0 && len(l.pending) < longestLine {
			return len(part), nil
		}
		line := l.pending
		if end >= 0 {
			line = l.pending[:end]
		}
		l.to.Println(l.to.Paint(screen.Dim, "│ ") + screen.Clean(strings.TrimRight(string(line), "\r")))
		l.pending = append([]byte(nil), l.pending[min(len(line)+1, len(l.pending)):]...)
	}
}
