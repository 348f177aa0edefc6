package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen/steps"
	"github.com/bellerophon-io/bellerophon/bellerophon/up"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	"github.com/spf13/cobra"
)

func newCluster() *cobra.Command {
	var options localcluster.Options
	var nodes string
	var images []string
	var buildOnly bool
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Start only the local cluster and print its kubeconfig",
		Long: `Starts a real control plane on this machine's loopback interface, with one simulated node,
and prints the path of its kubeconfig on standard output. Progress goes to standard error.
The cluster runs until the command gets an interrupt or SIGTERM.

The simulated node runs no containers: its Pods become Ready at once. With --nodes real the
node runs kubelet and containerd. That needs Linux, root, and these programs on the machine:
containerd, runc, CNI plugins and iptables. Without one of them the command says so, and
starts the simulated node.`,
		Example: `  bellerophon cluster
  bellerophon cluster --api-port 6443
  bellerophon cluster --kubernetes 1.35
  sudo bellerophon cluster --nodes real --load bellerophon-operator.tar`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			stderr := screen.New(os.Stderr)
			options.Progress = steps.On(stderr)
			options.Nodes = localcluster.Nodes(nodes)
			if len(images) > 0 && options.Nodes != localcluster.RealNode {
				return fmt.Errorf("--load goes with --nodes %s, because the simulated node runs no containers", localcluster.RealNode)
			}
			if buildOnly {
				err := localcluster.Build(command.Context(), options)
				stderr.Live()
				return err
			}
			cluster, err := startCluster(command.Context(), options, images, func(line string) {
				stderr.Live()
				stderr.Println(line)
			})
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
	command.Flags().StringVar(&options.Kubernetes, "kubernetes", "", "minor version of the control plane, such as 1.35; default $BELLEROPHON_KUBERNETES, or the version that this program is built for")
	command.Flags().StringVar(&nodes, "nodes", string(localcluster.SimulatedNode), "simulated or real; a real node runs containers, and needs Linux, root and containerd")
	command.Flags().StringArrayVar(&images, "load", nil, "with --nodes real: archive of an image to load into the node; may be repeated")
	command.Flags().BoolVar(&buildOnly, "build-only", false, "build the control plane, unless it is built already, and exit")
	_ = command.RegisterFlagCompletionFunc("nodes", cobra.FixedCompletions([]string{string(localcluster.SimulatedNode), string(localcluster.RealNode)}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// startCluster starts a cluster and loads images into its node, unless the node is simulated.
func startCluster(ctx context.Context, options localcluster.Options, images []string, say func(line string)) (*localcluster.Cluster, error) {
	cluster, isReal, err := up.StartCluster(ctx, options, say)
	if err != nil || !isReal {
		return cluster, err
	}
	for _, archive := range images {
		if err := cluster.LoadImage(ctx, archive); err != nil {
			return nil, errors.Join(err, cluster.Stop())
		}
	}
	return cluster, nil
}
