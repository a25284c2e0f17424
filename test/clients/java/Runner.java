import io.grpc.Channel;
import io.grpc.stub.StreamObserver;
import io.jobgate.v1.AckRequest;
import io.jobgate.v1.GatewayMessage;
import io.jobgate.v1.JobCall;
import io.jobgate.v1.JobResult;
import io.jobgate.v1.RunnerMessage;
import io.jobgate.v1.RunnerServiceGrpc;
import io.jobgate.v1.SubscribeRequest;

/** A runner that returns each body. The test compiles it against the generated code. */
final class Runner implements StreamObserver<GatewayMessage> {
  private final StreamObserver<RunnerMessage> gateway;
  private long sequence;

  Runner(Channel channel) {
    gateway = RunnerServiceGrpc.newStub(channel).work(this);
    SubscribeRequest subscribe = SubscribeRequest.newBuilder().setSubscriber("java").setMaxInFlight(8).build();
    gateway.onNext(RunnerMessage.newBuilder().setSubscribe(subscribe).build());
  }

  @Override
  public void onNext(GatewayMessage message) {
    if (message.getJobCallsCount() == 0) return;
    RunnerMessage.Builder answer = RunnerMessage.newBuilder().setSequence(++sequence);
    for (JobCall call : message.getJobCallsList()) {
      JobResult result = JobResult.newBuilder().setBody(call.getBody()).build();
      AckRequest.Ack.Builder ack = answer.addAcksBuilder();
      ack.setCallId(call.getCallId()).setLeaseToken(call.getLeaseToken()).setResult(result);
    }
    gateway.onNext(answer.build());
  }

  @Override
  public void onError(Throwable error) {}

  @Override
  public void onCompleted() {}
}
