package main

import (
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/spf13/cobra"
)

func newCluster() *cobra.Command {
	var options localcluster.Options
	var buildOnly bool
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Start only the local cluster and print its kubeconfig",
		Long: `Starts a real control plane on this machine's loopback interface, with one simulated node,
and prints the path of its kubeconfig on standard output. Progress goes to standard error.
The cluster runs until the command gets an interrupt or SIGTERM.`,
		Example: `  bellerophon cluster
  bellerophon cluster --api-port 6443`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			stderr := screen.New(os.Stderr)
			options.Progress = screen.Progress(stderr)
			if buildOnly {
				err := localcluster.Build(command.Context(), options)
				stderr.Live()
				return err
			}
			cluster, err := localcluster.Start(command.Context(), options)
			stderr.Live()
			if err != nil {
				return err
			}
			fmt.Println(cluster.Kubeconfig())
			stderr.Println(fmt.Sprintf("the API server was ready after %.1f s; Ctrl-C stops the cluster", cluster.APIReadyAfter().Seconds()))
			if kubectl := cluster.Kubectl(); kubectl != "" {
				stderr.Println("  kubectl: KUBECONFIG=" + cluster.Kubeconfig() + " " + kubectl + " get nodes")
			}
			select {
			case <-command.Context().Done():
			case <-cluster.Done():
			}
			died := cluster.Err()
			if err := cluster.Stop(); err != nil {
				return err
			}
			return died
		},
	}
	command.Flags().IntVar(&options.APIPort, "api-port", 0, "port of the API server on 127.0.0.1; 0 means any free port")
	command.Flags().BoolVar(&buildOnly, "build-only", false, "build the control plane, unless it is built already, and exit")
	return command
}
