package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/footprint"
	"github.com/bellerophon-io/bellerophon/bellerophon/logging"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/processors"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NewOperator creates the command that runs the operator.
func NewOperator() *cobra.Command {
	var kubeconfig, level, format, group string
	var options controller.Options
	var hooks webhooks
	var further operator.Kinds
	var tape recording.Options
	var recordBytes resource.QuantityValue
	command := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator on your own cluster",
		Long: `Runs the operator until it gets an interrupt or SIGTERM. In a pod it uses the pod's
ServiceAccount; elsewhere it uses the credentials of the kubeconfig. The permissions that it
needs are in the role of charts/bellerophon-operator. It waits for a cluster that does not
answer, and for a resource definition that is not installed yet. It runs on one processor
while one is enough, and on all available processors otherwise. GOMAXPROCS sets a fixed number.
Several replicas need --lease: one of them works, and the others stand by.`,
		Example: `  bellerophon operator --kubeconfig ~/.kube/config
  bellerophon operator --namespace team-a --workers 4 --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			least, err := logging.Level(level)
			if err != nil {
				return err
			}
			log, err := logging.New(os.Stderr, least, format)
			if err != nil {
				return err
			}
			config, err := connect.Config(kubeconfig)
			if err != nil {
				return err
			}
			if !command.Flags().Changed("metrics-address") {
				options.MetricsAddress = metricsAddress(options.Protection, controller.InCluster(config))
			}
			if !command.Flags().Changed("health-address") {
				options.HealthAddress = healthAddress(controller.InCluster(config))
			}
			if group != "" {
				namespace, name, both := strings.Cut(group, "/")
				if !both {
					return fmt.Errorf("--shards is %q; give NAMESPACE/NAME", group)
				}
				options.Shards = &shards.Options{Namespace: namespace, Group: name}
				if !controller.InCluster(config) {
					options.Shards.Identity = fmt.Sprintf("pid-%d", os.Getpid())
				}
			}
			if options.Logger = log; tape.Dir != "" {
				tape.Bytes, tape.Logger, tape.Version = recordBytes.Value(), log, version()
				options.Recording = &tape
			}
			options.OnListen = func(server string, address net.Addr) {
				log.Info("listening", "server", server, "address", address.String())
			}
			if options.ProfileAddress != "" {
				footprint.ProfileMemory()
			}
			manager, err := operator.New(config, options, further)
			if err != nil {
				return err
			}
			run, err := hooks.beside(manager, config, options, further)
			if err != nil {
				return err
			}
			log.Info("operator started", "server", config.Host, "namespaces", options.Namespaces)
			err = processors.Govern(command.Context(), func(ctx context.Context) error { return footprint.Trim(ctx, run) })
			log.Info("operator stopped")
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; default is $KUBECONFIG, then the pod's ServiceAccount, then ~/.kube/config")
	flags.StringSliceVarP(&options.Namespaces, "namespace", "n", nil, "watch only these namespaces, separated by commas; default all")
	flags.StringVar(&group, "shards", "", "share the objects with the other replicas of a group, given as NAMESPACE/NAME; their Leases are in that namespace")
	flags.BoolVar(&further.Heroes, "heroes", false, "work on the kind Bellerophon, too: a preview, see docs/heroes.md")
	flags.IntVar(&options.Workers, "workers", 0, "concurrent reconciles, 1 to 1024; default 32")
	flags.DurationVar(&options.Window, "debounce-window", 0, "how long an event of a busy object waits for a newer one; negative means no wait; default 10ms")
	flags.StringVar(&options.MetricsAddress, "metrics-address", "", "where to serve /metrics; empty means nowhere; default :8080 in a cluster or with --protection, and 127.0.0.1:8080 elsewhere")
	flags.StringVar(&options.HealthAddress, "health-address", "", "where to serve /healthz and /readyz; empty means nowhere; default :8081 in a cluster, and 127.0.0.1:8081 elsewhere")
	flags.StringVar(&options.ProfileAddress, "profile-address", "", "where to serve /debug/pprof/ for `go tool pprof`; default nowhere")
	flags.TextVar(&options.Protection, "protection", options.Protection, "which clients may read metrics and profiles: protected (TLS and a token whose user may get the URL), unprotected (plain HTTP, everyone), or auto (protected in a cluster)")
	flags.StringVar(&options.Certificate.File, "tls-certificate", "", "file of the certificate of protected servers; default one that is signed by itself")
	flags.StringVar(&options.Certificate.KeyFile, "tls-key", "", "file of the key of --tls-certificate")
	flags.StringVar(&options.ClientAuthorities, "client-authorities", "", "file of authorities whose certificates clients of protected servers may present instead of a token; default none")
	flags.StringVar(&options.LeaderElection.Lease, "lease", os.Getenv("BELLEROPHON_LEASE"), "elect one of several replicas by this Lease, as namespace/name; default $BELLEROPHON_LEASE, or no election")
	flags.DurationVar(&options.LeaderElection.LeaseDuration, "lease-duration", 0, "how long other replicas wait for one that has died: whole seconds, 1s to 1h; default 15s")
	flags.StringVar(&tape.Dir, "record", "", "record events, and the requests of reconcilers with their answers, into files of this folder: see bellerophon replay")
	flags.Var(&recordBytes, "record-bytes", "with --record: most bytes of the files, 1Mi to 1Ti; default 256Mi")
	flags.DurationVar(&tape.Age, "record-age", 0, "with --record: how long records are kept, 1m to 720h; default 1h")
	hooks.addTo(command)
	flags.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&format, "log-format", "text", "text or json")
	_ = command.RegisterFlagCompletionFunc("protection", cobra.FixedCompletions([]string{"auto", "protected", "unprotected"}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(logging.Levels, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(logging.Formats, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// metricsAddress returns the default of --metrics-address. Outside of a cluster it is for this machine
// alone, unless the user has decided about the protection.
func metricsAddress(protection controller.Protection, inCluster bool) string {
	if protection == controller.ProtectedInCluster && !inCluster {
		return "127.0.0.1:8080"
	}
	return ":8080"
}

// healthAddress returns the default of --health-address. Only in a cluster does another machine ask, the node.
func healthAddress(inCluster bool) string {
	if inCluster {
		return ":8081"
	}
	return "127.0.0.1:8081"
}
