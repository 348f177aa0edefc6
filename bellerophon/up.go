package main

import (
	"os"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/up"
	"github.com/spf13/cobra"
)

func newUp() *cobra.Command {
	options := up.Options{Stdout: os.Stdout, Stderr: os.Stderr}
	var output, level string
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a local cluster, the operator and samples, and show how they become Ready",
		Long: `Starts a real control plane on this machine's loopback interface. The first start builds
it, which takes some minutes. The command then installs the resource definition and the
operator's permissions, runs the operator as its own ServiceAccount, applies samples, and
shows how they become Ready. Ctrl-C stops the command and removes everything it created.

With --kubeconfig it uses your own cluster, and leaves only the resource definition there.`,
		Example: `  bellerophon up
  bellerophon up --sheroes 200 --until-settled --output json
  bellerophon up --replicas 3 --sheroes 100
  bellerophon up --prometheus
  sudo bellerophon up --heroes 1
  bellerophon up --kubeconfig ~/.kube/config --namespace try --keep`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if options.JSON, err = isJSON(output); err != nil {
				return err
			}
			if options.Log, err = logging.Level(level); err != nil {
				return err
			}
			return up.Run(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Sheroes, "sheroes", 3, "sample objects to apply, 0 to 10000")
	flags.IntVar(&options.Heroes, "heroes", 0, "heroes to apply instead of sample objects, 0 to 20: clusters of the key-value store, on a node that runs containers if this machine can")
	flags.IntVar(&options.Replicas, "replicas", 1, "processes of the operator that share the samples, 1 to 20; they use the credentials of the kubeconfig")
	flags.BoolVar(&options.UntilSettled, "until-settled", false, "exit once all samples are Ready and the cache is Settled, or once a hero has survived the loss of its leader; fail after --timeout")
	flags.DurationVar(&options.Timeout, "timeout", 5*time.Minute, "how long --until-settled waits after the samples are applied")
	flags.StringVarP(&output, "output", "o", "text", "text or json; json prints one object at the end, and progress on standard error")
	flags.StringVar(&options.Kubeconfig, "kubeconfig", "", "use the cluster of this kubeconfig file instead of a local one")
	flags.StringVarP(&options.Namespace, "namespace", "n", "default", "namespace of the samples; created if it does not exist")
	flags.StringVar(&options.Image, "image", "", "image of the samples' servers; pulling from a host that ends with .invalid fails")
	flags.BoolVar(&options.Keep, "keep", false, "with --kubeconfig: leave samples and permissions in the cluster")
	flags.StringVar(&options.MetricsAddress, "metrics-address", "127.0.0.1:0", "where the operator serves /metrics; port 0 means any free port")
	flags.StringVar(&options.Record, "record", "", "record the operator's inputs into files of this folder: see bellerophon replay")
	flags.BoolVar(&options.Prometheus, "prometheus", false, "scrape the operator with the prometheus of this machine, with all rules and alerts, and print its URL")
	flags.StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logging.Levels, cobra.ShellCompDirectiveNoFileComp))
	return command
}
