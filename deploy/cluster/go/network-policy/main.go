// Command network-policy enforces NetworkPolicies on this node: kube-router's controller for them, without its
// routing and load balancing, which would triple what has to be compiled.
package main

import (
	"flag"
	"log"
	"net/http"
	"sync"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/cloudnativelabs/kube-router/v2/pkg/svcip"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config := options.NewKubeRouterConfig()
	services := ""
	health := ""
	flag.StringVar(&config.Kubeconfig, "kubeconfig", "", "how to reach the API")
	flag.StringVar(&config.HostnameOverride, "node", "", "the name of this node, which must exist")
	flag.StringVar(&services, "services", "", "the service network, as CIDR")
	flag.StringVar(&health, "health", "", "address:port; answers 200 at /healthz once the policies are in force")
	flag.Parse()
	config.RunFirewall, config.RunRouter, config.RunServiceProxy, config.RunLoadBalancer = true, false, false, false
	config.EnableIPv4, config.EnableIPv6 = true, false
	config.ClusterIPCIDRs = []string{services}
	log.Fatal(run(config, health))
}

func run(config *options.KubeRouterConfig, health string) error {
	access, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	ranges, err := svcip.NewValidator(svcip.Config{ClusterIPCIDRs: config.ClusterIPCIDRs, EnableIPv4: true})
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	never := make(chan struct{})
	factory.Start(never)
	factory.WaitForCacheSync(never)

	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(
		client, config, pods, policies, namespaces, &sync.Mutex{}, nil, tables, sets, ranges)
	if err != nil {
		return err
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler, policies: controller.NetworkPolicyEventHandler,
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	running := &sync.WaitGroup{}
	running.Add(1)
	go controller.Run(beats, never, running)
	<-beats // a beat tells that a sync begins: at the second one the first is done
	controller.RequestFullSync()
	<-beats
	go func() {
		for range beats {
		}
	}()
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {})
	return http.ListenAndServe(health, nil)
}
